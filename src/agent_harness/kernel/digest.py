"""Digest functions without ``hashlib``, because importing ``hashlib`` takes longer than a whole hook call."""

from __future__ import annotations


def blake2b(content: bytes, size: int) -> str:
    """Return a BLAKE2b digest of ``size`` bytes, in hexadecimal."""
    try:
        from _blake2 import blake2b as make
    except ImportError:  # another interpreter
        from hashlib import blake2b as make
    return make(content, digest_size=size).hexdigest()


def sha256(content: bytes) -> str:
    try:
        from _sha256 import sha256 as make  # pyrefly: ignore[missing-import]  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256 as make  # pyrefly: ignore[missing-import]
        except ImportError:  # another interpreter
            from hashlib import sha256 as make
    return make(content).hexdigest()
