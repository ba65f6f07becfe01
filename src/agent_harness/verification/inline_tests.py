"""Tests that lie in the files of the work, as Rust's do in modules with ``#[cfg(test)]``.
No overlay of whole files separates them from the work, so a version of such a file is made of two parts."""

from collections.abc import Mapping
from typing import NamedTuple

from agent_harness.verification.case import Case
from agent_harness.verification.changes import contents
from agent_harness.verification.expecting.compiled import rust_parts
from agent_harness.verification.guard import file_of
from agent_harness.verification.runner_config import is_test_file


class InlineTests(NamedTuple):
    brought: Mapping[str, bytes]  # the code of the base, with the tests of the candidate
    kept: Mapping[str, bytes]  # the code of the candidate, with the tests of the base
    new: Mapping[str, bytes]  # both of the candidate


def is_inline(node: str) -> bool:
    """Return True if the id is one of a unit test of Rust, which names no file of tests."""
    return file_of(node).endswith(".rs)")


def inline_tests(case: Case) -> InlineTests:
    """Return the versions of the changed files whose inline tests differ."""
    paths = [c.path for c in case.changes.files if c.path.endswith(".rs") and not c.link]
    paths = [path for path in paths if not is_test_file(path)]
    if not paths:
        return InlineTests({}, {}, {})
    before, after = (contents(case.git, commit, paths) for commit in (case.base, case.candidate))
    brought, kept, now = dict[str, bytes](), dict[str, bytes](), dict[str, bytes]()
    for path in paths:
        (old_code, old), (code, new) = (_parts(texts.get(path)) for texts in (before, after))
        if old == new:
            continue
        if new:
            brought[path], now[path] = old_code + new, code + new
        if old:
            kept[path] = code + old
    moved = {_parts(text)[1] for path, text in after.items() if path not in before}
    kept = {path: text for path, text in kept.items() if path in after or text not in moved}
    return InlineTests(brought, kept, now)


def _parts(content: bytes | None) -> tuple[bytes, bytes]:
    code, tests, _ = rust_parts(content)
    return code.encode("utf-8", "surrogateescape"), tests.encode("utf-8", "surrogateescape")
