"""Tests that lie in the files of the work, as Rust's do in modules with ``#[cfg(test)]``.
No overlay of whole files separates them from the work, so a version of such a file is made of two parts."""

from collections.abc import Mapping
from typing import NamedTuple

from agent_harness.verification.case import Case
from agent_harness.verification.changes import contents
from agent_harness.verification.expecting.compiled import module_of, rust_parts
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
    whole = [path for path in paths if path in case.survey.test_side and not is_test_file(path)]
    paths = [path for path in paths if not (path in whole or is_test_file(path))]
    before, after = (contents(case.git, commit, paths) for commit in (case.base, case.candidate))
    brought, kept, now = dict[str, bytes](), dict[str, bytes](), dict(contents(case.git, case.candidate, whole))
    # x.rs and x/mod.rs are one module; any other file may be one that no crate compiles
    left = {module_of(path): path for path in before if path not in after}
    for path in (path for path in paths if path in after):
        was = path if path in before else left.get(module_of(path), path)
        (old_code, old), (code, new) = _parts(before.get(was)), _parts(after[path])
        if old == new:
            continue
        if new:
            brought[was], now[path] = old_code + new, code + new
        if old:
            kept[path] = code + old
    return InlineTests(brought, kept, now)


def _parts(content: bytes | None) -> tuple[bytes, bytes]:
    code, tests, _ = rust_parts(content)
    return code.encode("utf-8", "surrogateescape"), tests.encode("utf-8", "surrogateescape")
