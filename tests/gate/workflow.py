"""Runs the steps of a GitHub workflow on this machine, as far as the steps of this project need it.

A checkout is a clone with the merge commit of the pull request, an uploaded artifact is the list of its files. The step
that installs the package is replaced by a program that starts this source: ``tests/install`` installs for real."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ACTION = Path(__file__).parents[2] / "action.yml"
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_PROPERTY = (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%"))


@dataclass
class Workflow:
    """One run: its checkout, what it printed, its files and its end."""

    folder: Path
    origin: Path  # a bare repository with the branches main and work
    event: dict[str, str] = field(default_factory=dict)  # values of ``github.event``
    environ: dict[str, str] = field(default_factory=dict)
    package: Path | None = None  # what the step installs; without it, the step is replaced
    code: int = 0
    log: str = ""
    artifact: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.temp = self.folder / "temp"
        self.temp.mkdir(parents=True)
        self.checkout = self.folder / "checkout"
        self.summary = self.folder / "summary.md"

    def run(self, text: str, **inputs: str) -> "Workflow":
        """Run the steps of a YAML text. ``inputs`` are further inputs of our action."""
        for step in YAML(typ="safe").load(text)["steps"]:
            given = step.get("with", {})
            if step["uses"].startswith("actions/checkout@"):
                self._checked_out(whole=given.get("fetch-depth") == 0)
            else:
                self._composite(YAML(typ="safe").load(ACTION.read_text()), {**given, **inputs})
        return self

    def _checked_out(self, *, whole: bool) -> None:
        depth = [] if whole else ["--depth=1", "--branch=merge"]
        _git(self.folder, "clone", "-q", *depth, f"file://{self.origin}", str(self.checkout))
        _git(self.checkout, "fetch", "-q", *depth[:1], "origin", "refs/heads/merge")
        _git(self.checkout, "checkout", "-q", "--detach", "FETCH_HEAD")

    def _composite(self, action: dict[str, Any], given: dict[str, str]) -> None:
        values = {
            f"inputs.{name}": str(given.get(name, each.get("default", ""))) for name, each in action["inputs"].items()
        }
        values |= {f"github.event.{name}": value for name, value in self.event.items()}
        values["runner.temp"], values["always()"] = str(self.temp), "true"
        for step in action["runs"]["steps"]:
            condition = step.get("if", "true").removeprefix("${{").removesuffix("}}")
            if not _value(condition, values) or (self.code and "always()" not in condition):
                continue
            if "run" not in step:
                paths = [_filled(each, values) for each in step["with"]["path"].splitlines()]
                self.artifact = [Path(each).name for each in paths if Path(each).is_file()]
            elif step["name"] == "Install the gate" and self.package is None:
                self._installed()
            else:
                values |= self._shell(step, values)

    def _installed(self) -> None:
        program = self.temp / "harness-gate/bin/harness"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m agent_harness.cli.main "$@"\n')
        program.chmod(0o755)

    def _shell(self, step: dict[str, Any], values: dict[str, str]) -> dict[str, str]:
        output = self.folder / "output"
        output.write_text("")
        env = {name: _filled(str(each), values) for name, each in step.get("env", {}).items()}
        env = {
            **os.environ,
            "GITHUB_ACTIONS": "true",
            "CI": "true",
            "RUNNER_TEMP": str(self.temp),
            **self.environ,
            **env,
        }
        env |= {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.summary)}
        env |= {"GITHUB_ACTION_PATH": str(self.package or ACTION.parent)}
        words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        folder = self.checkout / _filled(step.get("working-directory", "."), values)
        done = subprocess.run(
            words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        self.log, self.code = self.log + done.stdout, done.returncode
        told = (line.partition("=") for line in output.read_text().splitlines())
        return {f"steps.{step.get('id', '')}.outputs.{name}": value for name, _, value in told}

    @property
    def commands(self) -> list[tuple[str, dict[str, str], str]]:
        return read(self.log)


def read(log: str) -> list[tuple[str, dict[str, str], str]]:
    """Return the workflow commands that a runner takes from a log, unescaped as a runner does."""
    found: list[tuple[str, dict[str, str], str]] = []
    stopped = ""
    for line in re.split(r"\r\n|\r|\n", log):
        command = re.match(r"\s*::([\w-]+)(?: ([^:]*(?::(?!:)[^:]*)*))?::(.*)", line)
        if "##[" in line and not stopped:
            found.append(("##[", {}, line))
        if command is None or (stopped and command[1] != stopped):
            continue
        if command[1] == "stop-commands" or stopped:
            stopped = "" if stopped else command[3]
            continue
        pairs = dict(each.split("=", 1) for each in (command[2] or "").split(",") if "=" in each)
        found.append((command[1], {name: _unescaped(each) for name, each in pairs.items()}, _unescaped(command[3])))
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"%(0D|0A|3A|2C|25)", lambda sign: dict(_PROPERTY)[sign[0]], text)


def _filled(text: str, values: dict[str, str]) -> str:
    return _EXPRESSION.sub(lambda found: _value(found[1], values), text)


def _value(expression: str, values: dict[str, str]) -> str:
    """Evaluate names with ``||``, ``&&`` and ``!``."""
    result = ""
    for option in expression.split("||"):
        for name in map(str.strip, option.split("&&")):
            result = values.get(name.lstrip("!"), "true" if name == "true" else "")
            if name.startswith("!"):
                result = "" if result else "true"
            if not result:
                break
        if result:
            break
    return result


def _git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)
