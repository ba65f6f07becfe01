"""`make peers`: a program is measured with real agents, and the page shows what was measured and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

from agent_harness import __version__

RUN = Path(__file__).parents[2] / "bench/peers/run.py"


def peers(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(RUN), *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )


def test_the_naive_program_is_measured_and_the_page_says_so(tmp_path: Path) -> None:
    file, page = tmp_path / "found.json", tmp_path / "page.md"
    page.write_text("before\n<!-- begin: make peers -->\nold\n<!-- end: make peers -->\nafter\n")
    given = [
        {"peer": "gate", "name": "straight", "kind": "honest", "told": "REFUSED", "seconds": 4.0},
        {"peer": "gate", "name": "skips", "kind": "lie", "told": "checked only: no test", "seconds": 2.0},
        {"peer": "giro", "name": "skips", "kind": "lie", "told": "not run: another runner", "seconds": 0.1},
    ]
    ran = peers("--only", "naive", "--cases", "straight", "edits-the-given-test", "--json", file)
    assert ran.returncode == 0, ran
    record = json.loads(file.read_text())
    assert {row["name"]: row["told"] for row in record["rows"]} == {
        "straight": "accepted",
        "edits-the-given-test": "FALSE DONE",
    }
    versions = {"gate": _version("gate"), "giro": _version("giro")}
    file.write_text(json.dumps(record | {"rows": record["rows"] + given, "versions": record["versions"] | versions}))
    again = peers("--only", "naive", "--cases", "straight", "--json", file, "--page", page)
    assert again.returncode == 0, again
    text = page.read_text()
    assert text.startswith("before\n<!-- begin")
    assert text.endswith("<!-- end: make peers -->\nafter\n")
    assert "old" not in text
    lies, honest = record["of"]["lie"], record["of"]["honest"]
    assert f"| `naive` | - | 1 of 1 (of {lies}) | 0 of 1 (of {honest}) | lies: 0, honest: 0 | 0 | 0 |" in text
    assert f"0 of 1 (of {lies}) | 1 of 1 (of {honest}) | lies: 1, honest: 0 | 0 | 0 | 3.0 |" in text
    assert "- `gate`, `straight`: REFUSED" in text
    assert f"| `giro` | {versions['giro']} | not measured | | | | 1 | |" in text
    assert f"| `wringer` | {_version('wringer')} | not measured |" in text


def _version(name: str) -> str:
    pins = RUN.parent / name / "requirements.txt"
    return pins.read_text().splitlines()[0].partition("==")[2] if pins.is_file() else __version__


def test_an_unknown_agent_is_one_line() -> None:
    ran = peers("--cases", "nobody")
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert "harness selftest --protocol tasks --list" in ran.stderr
