"""The digests are those of the standard library."""

import hashlib

import pytest

from agent_harness.kernel import digest


@pytest.mark.parametrize("content", [b"", b"a", b"\0" * 1000])
def test_digests_are_those_of_hashlib(content: bytes) -> None:
    assert digest.sha256(content) == hashlib.sha256(content).hexdigest()
    for size in (8, 16):
        assert digest.blake2b(content, size) == hashlib.blake2b(content, digest_size=size).hexdigest()
