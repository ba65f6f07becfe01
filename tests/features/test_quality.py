"""Figures of health: what a linter said, which files are large, when the next cleanup is due."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.kernel.git import Git
from agent_harness.protocols.features import records, repository, status
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


PROGRAM = "import os\nimport sys\nx = {'a:1: b': 2}\n\n\ndef f():\n    y = 1\n    return z  \n"


@pytest.mark.parametrize("form", ["full", "concise", "grouped", "pylint"])
def test_findings_of_the_real_ruff_are_counted_by_code_in_each_of_its_forms(tmp_path: Path, form: str) -> None:
    """UAH-052, UAH-322, UAH-516: the code that ruff shows is no finding."""
    (tmp_path / "a.py").write_text(PROGRAM)
    words = ["-m", "ruff", "check", "--isolated", "--no-cache", "--select", "E,F,W", "--output-format", form, "."]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
    found = quality.lint_counts(done.stdout, done.returncode)
    assert found == quality.Lint(
        errors=4, warnings=1, kinds={"F401": 2, "F841": 1, "F821": 1, "W291": 1}, files={"a.py": 5}
    )


@pytest.mark.parametrize(
    ("output", "errors", "warnings", "kinds"),
    [
        ("a.py:1:1: F401 'os' unused\na.py:2:80: W291 space\n", 1, 1, {"F401": 1, "W291": 1}),
        (
            (
                "/x/a.js\n  1:10  error    'x' is unused  no-unused-vars\n  2:3   warning  Missing semicolon  semi\n\n"
                "✖ 2 problems (1 error, 1 warning)\n"
            ),
            1,
            1,
            {"no-unused-vars": 1, "semi": 1},
        ),
        (
            (
                "/x/a.js:1:10: 'x' is never used. [Error/no-unused-vars]\n/x/a.js:2:3: Semicolon. [Warning/semi]\n\n"
                "2 problems\n"
            ),
            1,
            1,
            {"no-unused-vars": 1, "semi": 1},
        ),
        (
            "/x/a.js: line 1, col 10, Error - 'x' is never used. (no-unused-vars)\n\n1 problem\n",
            1,
            0,
            {"no-unused-vars": 1},
        ),
        ("the rest of a long output\na.py:9:1: E501 long\nFound 300 errors.\n", 300, 0, {"E501": 1, "OTHER": 299}),
    ],
)
def test_findings_of_other_linters(output: str, errors: int, warnings: int, kinds: dict[str, int]) -> None:
    """UAH-322, UAH-516: flake8, eslint's three forms, and an output whose beginning is cut off."""
    found = quality.lint_counts(output, 1)
    assert (found.errors, found.warnings, dict(found.kinds), found.by_lines) == (errors, warnings, kinds, False)


@pytest.mark.parametrize(
    "output",
    [
        "src/a.py:1:2: E501 long\nsrc/a.py:2:2: F401 x\nb.py:1:1: F401 y\n",
        "src/a.py:\n  1:2 E501 long\n  2:2 F401 x\n\nb.py:\n  1:1 F401 y\n",
        "E501 long\n --> src/a.py:1:2\n\nF401 x\n --> src/a.py:2:2\n\nF401 y\n --> b.py:1:1\n",
        (
            "src/a.py: line 1, col 2, Error - x. (no-x)\nsrc/a.py: line 2, col 2, Error - x. (no-x)\n"
            "b.py: line 1, col 1, Error - x. (no-x)\n"
        ),
    ],
)
def test_findings_name_their_files(output: str) -> None:
    """UAH-322."""
    assert dict(quality.lint_counts(output, 1).files) == {"src/a.py": 2, "b.py": 1}
    assert dict(quality.lint_counts(output.replace("src/", "/x/src/"), 1, "/x").files) == {"src/a.py": 2, "b.py": 1}


def test_one_finding_is_told_as_one_and_the_files_with_the_most_come_first() -> None:
    """UAH-052."""
    assert records.lint_line(1, 2, {"E501": 1}, {"a.py": 1, "b.py": 2}) == "1 error, 2 warnings (1 E501) in b.py, a.py"
    many = {f"{letter}.py": 1 for letter in "abcd"}
    assert records.lint_line(0, 4, {}, many) == "0 errors, 4 warnings in a.py, b.py, c.py, 1 more file"


def test_new_findings_are_told_from_those_of_before() -> None:
    before = quality.lint_counts("a.py:1:2: E501 long\na.py:2:2: F401 x\n", 1)
    now = quality.lint_counts("a.py:9:2: E501 long\nb.py:2:2: E501 long\n", 1)
    assert now.introduced_since(before) == {"E501": 1}
    assert quality.lint_counts("bad\nworse\n", 1).by_lines


def test_files_are_named_from_four_fifths_of_the_limit() -> None:
    """C36, UAH-314."""
    sizes = {"a": {"lines": 400}, "b": {"lines": 412}, "c": {"lines": 600}}
    assert [row["path"] for row in quality.large_files(sizes, 500)] == ["c", "b"]


@pytest.mark.parametrize(("done", "due"), [(0, 10), (9, 10), (10, 20), (25, 30)])
def test_the_next_cleanup_is_at_a_multiple_of_the_interval(done: int, due: int) -> None:
    """UAH-321."""
    assert quality.next_cleanup(done, 10) == due


def test_the_sample_of_the_document_is_fair_and_nothing_at_all_counts_as_one() -> None:
    """C52, UAH-438, UAH-439, UAH-440, UAH-441, UAH-442."""
    score = status.weigh(features=(12, 47), tests=(1, 1), lint_errors=0, lines=[1], max_lines=500)
    assert round(score, 3) == 0.702
    assert status.health_word(score) == "FAIR"
    empty = status.weigh(features=(0, 0), tests=(0, 0), lint_errors=0, lines=[], max_lines=500)
    assert round(empty, 3) == 0.6
    flooded = status.weigh(features=(1, 1), tests=(1, 1), lint_errors=999, lines=[10], max_lines=500)
    assert round(flooded, 3) == 0.8
    half_red = status.weigh(features=(1, 1), tests=(1, 2), lint_errors=0, lines=[10], max_lines=500)
    assert round(half_red, 3) == 0.85
    half_large = status.weigh(features=(1, 1), tests=(1, 1), lint_errors=0, lines=[501, 10], max_lines=500)
    assert round(half_large, 3) == 0.95
    assert [status.health_word(each) for each in (0.81, 0.8, 0.61, 0.6)] == ["GOOD", "FAIR", "FAIR", "POOR"]


def test_large_and_growing_files_are_told() -> None:
    """UAH-314, UAH-315, UAH-507, UAH-515, UAH-546."""
    sizes = {"files": {"a.py": {"lines": 501}, "b.py": {"lines": 120}, "c.py": {"lines": 90}, "new.py": {"lines": 300}}}
    before = {"files": {"a.py": {"lines": 500}, "b.py": {"lines": 69}, "c.py": {"lines": 40}}}
    assert [each["message"] for each in quality.alerts(sizes, before, 500)] == [
        "a.py has 501 lines. Consider splitting.",
        "b.py growing rapidly (51 lines in 1 session).",
    ]
    assert quality.alerts({}, {}, 500) == []
    later = quality.alerts({**sizes, "session": 7}, {**before, "session": 4}, 500)
    assert later[-1]["message"] == "b.py growing rapidly (51 lines in 3 sessions)."


def test_the_lines_of_source_files_are_tracked_by_session(tmp_path: Path) -> None:
    """UAH-087, UAH-132, UAH-507, UAH-546: tests are no source."""
    repository.make_repository(tmp_path)
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
