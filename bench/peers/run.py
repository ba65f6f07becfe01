"""Measures what other programs accept of the self-test's agents, and writes the table of ``docs/benchmark.md``.

Each folder beside this file is one program: ``adapter.sh`` calls it as docs/selftest.md describes, and the pinned
``requirements.txt`` or ``npm.txt`` is installed into ``.peers/NAME`` on first use. ``harness`` has no folder: it is
this project's own run. For each agent, all programs run one after the other, so that they share the machine's load.
"""

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TypedDict

from agent_harness import __version__
from agent_harness.selftest import trial

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ENVIRONMENTS = ROOT / ".peers"
PAGE = ROOT / "docs" / "benchmark.md"
OURS = ("harness", "gate")
NAMES = (*OURS, *sorted(path.parent.name for path in HERE.glob("*/adapter.sh") if path.parent.name not in OURS))
BEGIN, END = "<!-- begin: make peers -->", "<!-- end: make peers -->"
_NOT_RUN = re.compile(r"(?:.*\n)*not run: (.*)\s*\Z")
_PYTHON = re.compile(r"^# needs (python\S+)$", re.MULTILINE)


class Row(TypedDict):
    """Result of one agent with one program."""

    peer: str
    name: str
    kind: str
    told: str  # refused, accepted, FALSE DONE, REFUSED, checked only: REASON, HARM: REASON, not run: REASON
    seconds: float


class Record(TypedDict):
    """Return the record that ``--json FILE`` writes."""

    date: str
    machine: str
    versions: dict[str, str]
    of: dict[str, int]  # number of all lies and honest agents
    rows: list[Row]


def main(words: Sequence[str]) -> int:
    """Return 0 when each program that was asked for has been measured."""
    asked = _parser().parse_args(words)
    cases = [case for case in trial.all_cases() if case.protocol == "tasks" and case.kind != "untellable"]
    cases = [case for case in cases if not (case.missing or case.proof.whole)]  # the programs judge Python projects
    cases = [case for case in cases if case.kind != "honest" or "harness task" not in case.script]  # not for others
    of = {kind: sum(case.kind == kind for case in cases) for kind in ("lie", "honest")}
    if unknown := set(asked.cases) - {case.name for case in cases}:
        raise SystemExit(f"no such agent: {', '.join(sorted(unknown))}; type: harness selftest --protocol tasks --list")
    chosen = [case for case in sampled(cases, asked.every) if not asked.cases or case.name in asked.cases]
    record = _read(asked.json) or Record(date="", machine="", versions={}, of=of, rows=[])
    names = asked.only or list(NAMES)
    missing = {name: why for name in names if (why := installed(name))}
    for name, why in missing.items():
        print(f"{name} is left out: {why}", file=sys.stderr, flush=True)
    names = [name for name in names if name not in missing]
    record["rows"] = [row for row in record["rows"] if record["versions"][row["peer"]] == version(row["peer"])]
    _measure(record, chosen, names, asked.json)
    if asked.page:
        write(asked.page, table(record))
    print(table(record))
    return 1 if missing else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make peers", description="measure other programs with the self-test's agents"
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="only this program; may be repeated")
    parser.add_argument("--cases", nargs="+", default=[], metavar="NAME", help="only these agents of the self-test")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only one agent of N, always the same ones")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="keep the results here; what FILE has is not run again"
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help=f"write the table into this page, as {PAGE.name}")
    return parser


def sampled(cases: Sequence[trial.TrialAgent], every: int) -> list[trial.TrialAgent]:
    """Return one agent of ``every`` of each kind, in an order that depends on the names only."""
    mixed = sorted(cases, key=lambda case: sha256(case.name.encode()).hexdigest())
    kinds = [[case for case in mixed if case.kind == kind][::every] for kind in ("lie", "honest")]
    return [case for case in mixed if any(case in kind for kind in kinds)]


def installed(name: str) -> str:
    """Install the pinned packages of a program, once. Return the reason if that is impossible, else ""."""
    folder, to = HERE / name, ENVIRONMENTS / name
    pins = next((path for each in ("requirements.txt", "npm.txt") if (path := folder / each).is_file()), None)
    if pins is None:
        return ""
    text, ready = pins.read_text(encoding="utf-8"), to / "installed"
    if ready.is_file() and ready.read_text(encoding="utf-8") == text:
        return ""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    (ENVIRONMENTS / ".gitignore").write_text("*\n", encoding="utf-8")
    if pins.name == "npm.txt":
        steps = [["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(to)]]
        steps[0] += text.split()
    else:
        needed = _PYTHON.search(text)
        python = needed[1] if needed else sys.executable
        steps = [[python, "-m", "venv", str(to)]]
        steps += [[str(to / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]]
        steps[1] += ["-r", str(pins)]
    for words in steps:
        try:
            ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{words[0]}: {error}"
        if ran.returncode:
            return (ran.stderr or ran.stdout).strip().rpartition("\n")[2]
    ready.write_text(text, encoding="utf-8")
    return ""


def version(name: str) -> str:
    """Return the pinned version of a program."""
    pins = [HERE / name / "requirements.txt", HERE / name / "npm.txt"]
    text = next((path.read_text(encoding="utf-8") for path in pins if path.is_file()), "")
    found = re.search(r"^(?!#)\S+?(?:==|@)([\w.]+)$", text, re.MULTILINE)
    return found[1] if found else __version__ if name in OURS else "-"


def machine() -> str:
    """Return processors, system and Python of this machine."""
    return f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def _measure(record: Record, cases: Sequence[trial.TrialAgent], names: Sequence[str], file: Path | None) -> None:
    known = {(row["peer"], row["name"]) for row in record["rows"]}
    with ExitStack() as stack:
        grounds = {name: stack.enter_context(trial.Ground(_command(name))) for name in names}
        for case in cases:
            for name in names:
                if (name, case.name) in known:
                    continue
                result = grounds[name].tried(case)
                row = row_of(name, result)
                record["rows"].append(row)
                record["versions"][name] = version(name)
                record["date"], record["machine"] = f"{datetime.now(UTC):%Y-%m-%d}", machine()
                if file is not None:
                    file.write_text(json.dumps(record, indent=1), encoding="utf-8")
                print(f"{case.kind:<7} {case.name:<40} {name:<11} {row['told']} ({row['seconds']} s)", flush=True)


def _command(name: str) -> str | None:
    if name == "harness":
        return None
    return f"PEER={shlex.quote(str(ENVIRONMENTS / name))} {shlex.quote(str(HERE / name / 'adapter.sh'))}"


def row_of(name: str, result: trial.TrialResult) -> Row:
    """Return the row of one result."""
    why = _NOT_RUN.match(result.said.strip()) if not result.done else None
    told = f"not run: {result.problem or (why[1] if why else '')}" if result.problem or why else result.told
    return Row(peer=name, name=result.case.name, kind=result.case.kind, told=told, seconds=round(result.seconds, 1))


def _read(file: Path | None) -> Record | None:
    return json.loads(file.read_text(encoding="utf-8")) if file is not None and file.is_file() else None


def table(record: Record) -> str:
    """Return the table of a record, and the names of what our own programs got wrong."""
    lines = [
        f"Measured on {record['date']}, {record['machine']}.",
        "",
        "| program | version | false done | false reject | checked | harm | not run | median seconds for one agent |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    misses: list[str] = []
    for name in NAMES:
        rows = [row for row in record["rows"] if row["peer"] == name]
        ran = [row for row in rows if not row["told"].startswith("not run")]
        if not ran:
            lines.append(f"| `{name}` | {version(name)} | not measured | | | | {len(rows)} | |")
            continue
        seconds = f"{median(row['seconds'] for row in ran):.1f}"
        figures = _figures(ran, record["of"])
        lines.append(f"| `{name}` | {record['versions'][name]} | {figures} | {len(rows) - len(ran)} | {seconds} |")
        wrong = [row for row in ran if row["told"] in ("FALSE DONE", "REFUSED") or row["told"].startswith("HARM")]
        misses += [f"- `{name}`, `{row['name']}`: {row['told']}" for row in wrong if name in OURS]
    return "\n".join([*lines, "", "Wrong results of this project's programs:", "", *(misses or ["- none in this run"])])


def _figures(ran: Sequence[Row], of: dict[str, int]) -> str:
    lies, honest = ([row["told"] for row in ran if row["kind"] == kind] for kind in ("lie", "honest"))
    checked = [sum(told.startswith("checked") for told in each) for each in (lies, honest)]
    return (
        f"{lies.count('FALSE DONE')} of {_part(len(lies), of['lie'])} | "
        f"{honest.count('REFUSED')} of {_part(len(honest), of['honest'])} | "
        f"lies: {checked[0]}, honest: {checked[1]} | {sum(row['told'].startswith('HARM') for row in ran)}"
    )


def _part(ran: int, every: int) -> str:
    return str(ran) if ran == every else f"{ran} (of {every})"


def write(page: Path, text: str) -> None:
    """Replace the text between the two markers of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
