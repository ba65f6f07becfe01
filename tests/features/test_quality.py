"""Figures of health: what a linter said, which files are large, when the next cleanup is due."""

import json
import subprocess
from pathlib import Path

import pytest

from agent_harness.kernel.git import Git
from agent_harness.protocols.features import status, worktree
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.verdict import quality


def test_findings_are_counted_by_code_and_warnings_apart() -> None:
    """UAH-052, UAH-322."""
    output = "a.py:1:2: E501 long\nb.py:3: W291 space\nc.py:9:1: error: wrong type\nFound 3 errors.\n"
    found = quality.lint_counts(output, 1)
    assert (found.errors, found.warnings) == (2, 1)
    assert dict(found.kinds) == {"E501": 1, "W291": 1, "ERROR": 1}


@pytest.mark.parametrize(
    ("output", "code", "errors"), [("", 0, 0), ("all good\n", 0, 0), ("bad\nworse\n", 2, 2), ("", 1, 1)]
)
def test_a_linter_in_another_form_counts_by_lines_when_it_fails(output: str, code: int, errors: int) -> None:
    """UAH-052."""
    assert quality.lint_counts(output, code).errors == errors


def test_files_are_named_from_four_fifths_of_the_limit() -> None:
    """C36, UAH-314."""
    sizes = {"a": {"lines": 400}, "b": {"lines": 412}, "c": {"lines": 600}}
    assert [row["path"] for row in quality.large_files(sizes, 500)] == ["c", "b"]


@pytest.mark.parametrize(("done", "due"), [(0, 10), (9, 10), (10, 20), (25, 30)])
def test_the_next_cleanup_is_at_a_multiple_of_the_interval(done: int, due: int) -> None:
    """UAH-321."""
    assert quality.next_cleanup(done, 10) == due


def test_the_sample_of_the_document_is_fair_and_nothing_at_all_counts_as_one() -> None:
    """C52, UAH-438..442."""
    score = status.weigh(features=(12, 47), tests=(1, 1), lint_errors=0, lines=[1], max_lines=500)
    assert round(score, 3) == 0.702
    assert status.health_word(score) == "FAIR"
    empty = status.weigh(features=(0, 0), tests=(0, 0), lint_errors=0, lines=[], max_lines=500)
    assert round(empty, 3) == 0.6
    flooded = status.weigh(features=(1, 1), tests=(1, 1), lint_errors=999, lines=[10], max_lines=500)
    assert round(flooded, 3) == 0.8


def test_large_and_growing_files_are_told() -> None:
    """UAH-314, UAH-315, UAH-507, UAH-515, UAH-546."""
    sizes = {"files": {"a.py": {"lines": 501}, "b.py": {"lines": 120}, "c.py": {"lines": 90}, "new.py": {"lines": 300}}}
    before = {"files": {"a.py": {"lines": 500}, "b.py": {"lines": 69}, "c.py": {"lines": 40}}}
    assert quality.warnings(sizes, before, 500) == [
        "a.py has 501 lines. Consider splitting.",
        "b.py growing rapidly (51 lines in 1 session).",
    ]
    assert quality.warnings({}, {}, 500) == []


def test_the_lines_of_source_files_are_tracked_by_session(tmp_path: Path) -> None:
    """UAH-087, UAH-132, UAH-507, UAH-546: tests are no source."""
    worktree.make_repository(tmp_path)
    (tmp_path / "tests").mkdir()
    for name, lines in (("a.py", 3), ("b.py", 2), ("tests/test_a.py", 9), ("notes.txt", 4), ("proof.py", 5)):
        (tmp_path / name).write_text("x\n" * lines)
    for words in (("add", "-A"), ("commit", "-qm", "work")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    before = {"files": {"a.py": {"lines": 3, "session_added": 1}, "gone.py": {"lines": 1, "session_added": 1}}}
    found = quality.file_sizes(Git(tmp_path), "HEAD", 4, before, ["proof.py::test_x"])
    assert found["session"] == 4
    assert {path: (row["lines"], row["session_added"]) for path, row in found["files"].items()} == {
        "a.py": (3, 1),
        "b.py": (2, 4),
    }


@pytest.mark.parametrize(("red", "word"), [([], "FAIR"), (["t1.py::a"], "POOR"), (None, "FAIR")])
def test_status_and_health_count_the_same_tests(tmp_path: Path, red: list[str] | None, word: str) -> None:
    """UAH-053, UAH-439, C23, C52: placeholders of features that are still to be done make no project poor."""
    state = tmp_path / ".harness"
    state.mkdir()
    features = [{"id": n, "description": "d", "test_file": f"t{n}.py", "passes": n == 1} for n in range(1, 7)]
    baseline = {"passing_tests": ["t1.py::a"], "total_passing": 1, "total_tests": 6}
    (tmp_path / "features.json").write_text(json.dumps({"features": features}))
    (state / "session_state.json").write_text(json.dumps({"last_session": 1, "wip_red_tests": red}))
    (state / "test_baseline.json").write_text(json.dumps(baseline))
    assert status.read(FeatureLayout(tmp_path))["health"]["word"] == word
