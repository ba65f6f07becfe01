"""The answer of the gate in the forms that CI services read.

Paths and messages come from the change. Each form escapes them, so that they create no command and no markup."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent_harness.errors import Refused, UsageError
from agent_harness.gate.decision import ACCEPTED
from agent_harness.kernel import files
from agent_harness.kernel.digest import sha256
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.kernel.terminal import one_line
from agent_harness.verification.verdict import CRITICAL
from agent_harness.views.report.html import in_markdown

_MOST = 50  # rows of the table
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


def targets(given: Iterable[str]) -> dict[str, str]:
    """Return the form of each file. Raise an error if a form is unknown or a file cannot be written."""
    found: dict[str, str] = {}
    for each in given:
        form, _, path = each.partition("=")
        if form not in FORMS or not path:
            known = ", ".join(f"{name}=FILE" for name in FORMS)
            raise UsageError(f"--write {each}: known are {known}", hint="harness gate --write markdown=answer.md")
        if Path(path).is_dir() or not Path(path).parent.is_dir():
            raise Refused(f"--write {each}: {path} is not a file in an existing folder", hint="harness gate --help")
        found[path] = form
    return found


def write(found: dict[str, str], record: JsonObject) -> None:
    for path, form in found.items():
        files.replace(path, FORMS[form](record))


def _markdown(record: JsonObject) -> str:
    """Return a summary table and a table of findings."""
    shown = [("verdict", f"{record['shown']} ({record['why']})")]
    shown += [("change", f"{record['head'][:10]} after {record['against']} ({record['base'][:10]})")]
    shown += [("changed files", str(len(record["files"])))]
    for check in record["checks"]:
        steps = [f"{each['step']} {each['seconds']} s" for each in check["steps"] if each["seconds"] is not None]
        shown += [("tests", f"{check['command']} (found in {check['found_in']})")]
        shown += [("steps", ", ".join(steps) or "none ran")]
    rows = [f"## harness gate: {_cell(record['verdict'])}", "", "| | |", "| --- | --- |"]
    rows += [f"| {name} | {_cell(text)} |" for name, text in shown]
    if record["findings"]:
        rows += ["", "| finding | where | look at it |", "| --- | --- | --- |"]
    for each in record["findings"][:_MOST]:
        sign = "**!** " if each["severity"] == CRITICAL else ""
        rows.append(f"| {sign}{_cell(_said(each))} | {_cell(_place(each))} | {_cell(each['look'])} |")
    if len(record["findings"]) > _MOST:
        rows += ["", f"and {len(record['findings']) - _MOST} more"]
    return "\n".join([*rows, *(["", f"next: {_cell(record['next'])}"] if record["next"] else []), ""])


def _github(record: JsonObject) -> str:
    """Return workflow commands that show the verdict and mark the findings at their lines."""
    return "".join(f"{each}\n" for each in _commands(record))


def _commands(record: JsonObject) -> Iterator[str]:
    if record["verdict"] != ACCEPTED:
        title = _escaped(f"harness gate: {record['verdict']}", _PROPERTY)
        said = _escaped("{why}; next: {next}".format_map(record), _DATA)
        yield f"::error title={title}::{said}"
    for each in record["findings"]:
        at = {"file": each.get("path"), "line": each.get("line"), "title": each["code"]}
        places = ",".join(f"{name}={_escaped(str(value), _PROPERTY)}" for name, value in at.items() if value)
        kind = "error" if each["severity"] == CRITICAL else "notice"
        yield f"::{kind} {places}::{_escaped(_said(each), _DATA)}"


def _gitlab(record: JsonObject) -> str:
    """Return a code quality report. It has no place for a finding without a file."""
    found = [
        {
            "description": _clean(_said(each)),
            "check_name": each["code"],
            "fingerprint": sha256(json.dumps([each["code"], each["path"], each["message"]]).encode()),
            "severity": "critical" if each["severity"] == CRITICAL else "info",
            "location": {"path": _clean(each["path"]), "lines": {"begin": each.get("line") or 1}},
        }
        for each in record["findings"]
        if each.get("path")
    ]
    return json.dumps(found, indent=1) + "\n"


FORMS = {"markdown": _markdown, "github": _github, "gitlab": _gitlab}


def _said(finding: JsonObject) -> str:
    """Return the message, and a line for each older and newer expectation."""
    return "\n".join([finding["message"], *finding["data"].get("shown", [])])


def _place(finding: JsonObject) -> str:
    return ":".join(str(each) for each in (finding.get("path"), finding.get("line")) if each)


def _clean(text: str) -> str:
    """Return the lines of a text without secrets, and with unprintable characters as escapes."""
    return "\n".join(map(one_line, redact(text).splitlines()))


def _cell(text: str) -> str:
    return in_markdown(_clean(text))


def _escaped(text: str, signs: dict[str, str]) -> str:
    return "".join(signs.get(each, each) for each in _clean(text))
