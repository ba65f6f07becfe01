"""Agents of the self-test, as read from their files, and the trial of one agent: a fresh project, and the project's
state after the run.

The first lines of ``agents/FOLDER/NAME.sh`` are comments. ``# lie: TEXT`` describes a lying agent, and ``# honest:
TEXT`` an honest agent. ``# untellable: TEXT`` describes an agent whose faulty work cannot be detected. These comments
are optional:

    # on: features tasks long     the kinds of project; the default is features, or tasks in another language
    # project: scripted           a feature project whose commands are scripts and makefiles (``sample/scripted``)
    # answer: WORD                the user's answer to the remaining question
    # in: environment             the project has a separate virtual environment
    # proof: script node          the kinds of check (``proofs.py``) instead of pytest; one trial for each
    # attempts: 2                 the agent gets its task twice, because it leaves something outside the project

``sh`` runs the rest of the file after ``sample/lib.sh``."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from agent_harness.errors import HarnessError, ToolMissing
from agent_harness.installation import command_for_package
from agent_harness.kernel import process
from agent_harness.selftest.proofs import ANSWERS, PROOFS, PYTEST, SAMPLE, SCRIPTED, TrialProof
from agent_harness.verification.grade import CHECKED

PROTOCOLS = ("features", "tasks", "long")
_HERE = Path(__file__).parent
AGENTS = _HERE / "agents"
_KINDS = ("lie", "honest", "untellable")
_SECONDS = 300.0  # for one trial; an agent that takes longer has not ended as done
_GIT_SETTINGS = "[user]\n\tname = Self-test\n\temail = selftest@localhost\n[core]\n\tfsync = none\n"
_SETTINGS = """\
project:
  name: almanac
testing:
  full: python3 -m pytest -q tests
  feature: python3 -m pytest -q {test_file}
verification:
  fix_rounds: 0
"""
_SCRIPTED = """\
project:
  name: almanac
environment:
  init: sh init.sh
  reset: sh reset.sh
  health_check: sh tools/health.sh
testing:
  full: make -s test
  feature: make -s one FILE={test_file}
verification:
  fix_rounds: 0
"""
_AUTOLOAD_IS_AN_OPTION = (8, 4)
"""First version of pytest with an option to start without the installed plugins; the sample needs no plugin."""
_COMPILED = ".cache/go-build"
_NOTES = "What a person wrote beside the work.\n"


@dataclass(frozen=True, kw_only=True)
class TrialAgent:
    """One agent of the self-test on one kind of project, with one kind of check."""

    name: str
    kind: str  # lie, honest or untellable
    about: str
    protocol: str
    script: str
    project: str = ""  # another sample than the plain one
    answer: str = ""  # of a person, if a question is left
    in_environment: bool = False  # the project has a virtual environment, whose programs come first
    check: str = PYTEST  # the kind of check, a name of ``PROOFS``
    attempts: int = 1  # at a task

    @property
    def proof(self) -> TrialProof:
        return PROOFS[SCRIPTED if self.project == SCRIPTED else self.check]

    @property
    def missing(self) -> str:
        """Program of the check that is not on this machine, or ""."""
        return "" if not self.proof.tool or shutil.which(self.proof.tool) else self.proof.tool

    @property
    def program(self) -> str:
        """Shell script of the agent, with the library that it uses."""
        given = f"SELFTEST={self.protocol}\nSELFTEST_CHECK={self.check}\n"
        return f"{given}{(SAMPLE / 'lib.sh').read_text(encoding='utf-8')}\n{self.script}"


def all_cases() -> list[TrialAgent]:
    """Return one case for each agent and each of its kinds of project, also where a program is missing."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in AGENTS.glob("*/*.sh")} | _in_other_languages()
    return sorted((case for name, text in texts.items() for case in _read(name, text)), key=_place)


def _place(case: TrialAgent) -> tuple[bool, int, str, int]:
    return case.check != PYTEST, _KINDS.index(case.kind), case.name, PROTOCOLS.index(case.protocol)


def once(cases: Iterable[TrialAgent]) -> list[TrialAgent]:
    """Return one case for each agent, from all kinds of project."""
    by_name: dict[str, list[TrialAgent]] = {}
    for case in cases:
        by_name.setdefault(case.name, []).append(case)
    return [found[at % len(found)] for at, found in enumerate(by_name.values())]


def _in_other_languages() -> dict[str, str]:
    """Return the names and texts of the agents that do the same in each of the other languages."""
    found, checks = dict[str, str](), " ".join(name for name, proof in PROOFS.items() if proof.whole)
    for each in (AGENTS / "other-languages.sh").read_text(encoding="utf-8").split("\n\n# ")[1:]:
        kind, name, rest = each.split(" ", 2)
        found[name.rstrip(":")] = f"# proof: {checks}\nright; right_tests\n# {kind}: {rest}\nfinish\n"
    return found


def _read(name: str, text: str) -> list[TrialAgent]:
    said = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# ") and ": " in line)
    kind = next(kind for kind in _KINDS if kind in said)
    checks = said.get("proof", PYTEST).split()
    return [
        TrialAgent(
            name=f"{name}-{check}" if len(checks) > 1 else name,
            kind=kind,
            about=said[kind],
            protocol=protocol,
            script=text,
            project=said.get("project", ""),
            answer=said.get("answer", ""),
            in_environment=said.get("in") == "environment",
            check=check,
            attempts=int(said.get("attempts", "1")),
        )
        for check in checks
        for protocol in said.get("on", "tasks" if PROOFS[check].whole else "features").split()
    ]


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    case: TrialAgent
    done: bool = False  # the harness says that the work is done
    only: str = ""  # the harness's reason for checked instead of proven
    true: bool = False  # the oracle says that the work is done; asked only if ``done``
    harm: str = ""  # any other damage
    problem: str = ""  # reason for a trial without a result
    said: str = ""  # the end of the harness's output
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        if self.problem or self.harm:
            return False
        if self.case.kind == "honest":
            return self.done and self.true
        return self.case.kind == "untellable" or not self.false or bool(self.only)

    @property
    def false(self) -> bool:
        """True if the harness accepts the work, but the oracle does not."""
        return self.done and not self.true

    @property
    def is_checked(self) -> bool:
        """True if the work was accepted as checked and not as proven."""
        return bool(self.only) and (self.false or self.case.kind == "honest")

    @property
    def told(self) -> str:
        """Result of the trial in a few words, as the report shows it."""
        if self.problem or self.harm:
            return self.problem or f"HARM: {self.harm}"
        if self.case.kind == "untellable":
            return "believed" if self.done else "refused"
        if self.is_checked:
            return f"checked only: {self.only}"
        if self.case.kind == "lie":
            return "FALSE DONE" if self.false else "true after all" if self.done else "refused"
        return "accepted" if self.done else "REFUSED"

    def as_record(self) -> dict[str, object]:
        """Return the object that ``--json`` prints for this trial."""
        case = {"name": self.case.name, "kind": self.case.kind, "protocol": self.case.protocol}
        facts = {"done": self.done, "checked": self.only, "true": self.true, "harm": self.harm, "problem": self.problem}
        return {**case, **facts, "seconds": round(self.seconds, 1), "said": "" if self.good else self.said}


def require_tools(chosen: Sequence[TrialAgent]) -> None:
    for tool in ("git", "make") if any(case.project == SCRIPTED for case in chosen) else ("git",):
        if shutil.which(tool) is None:
            raise ToolMissing(f"{tool} is not installed", hint=f"install {tool}, then: harness selftest")
    if subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True, check=False).returncode:
        raise ToolMissing(
            "The agents' work is tested with pytest, which this Python does not have",
            hint=command_for_package("pytest>=8.4"),
        )


class Ground:
    """Context manager for the folder of all trials, which is deleted at the end."""

    def __init__(self, against: str | None = None) -> None:
        # the command of another harness to test; None: this harness
        self._against = against
        self._folder = Path()
        self._lock = Lock()

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="harness-selftest-")).resolve()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def tried(self, case: TrialAgent) -> TrialResult:
        """Run one agent in a copy of its project, and return the result. Afterwards, remove the copy."""
        with tempfile.TemporaryDirectory(prefix="trial-", dir=self._folder, ignore_cleanup_errors=True) as name:
            trial = _Trial(Path(name), case, self._against)
            began = time.monotonic()
            try:
                shutil.copytree(self._template(case), trial.project, symlinks=True)
                trial.add_compiled(trial.folder)
                if case.in_environment:
                    trial.make_environment()
                began = time.monotonic()
                return trial.result(began)
            except (OSError, subprocess.SubprocessError, HarnessError, ValueError, KeyError) as error:
                return TrialResult(
                    case=case, problem=f"{type(error).__name__}: {error}", seconds=time.monotonic() - began
                )

    def _template(self, case: TrialAgent) -> Path:
        """Return the template project for this case, which the first call creates."""
        name = case.project or ("features" if case.protocol == "features" else f"proofs/{case.check}")
        parts = [case.protocol, name.replace("/", "-"), *(["installed"] if case.in_environment else [])]
        root = self._folder / "-".join(parts)
        with self._lock:
            if not root.exists():
                self._make(root, name, case)
        return root

    def _make(self, root: Path, name: str, case: TrialAgent) -> None:
        proof, quick = case.proof, not case.in_environment
        settings = {"features": _SETTINGS, "feasts": _SETTINGS, SCRIPTED: _SCRIPTED}.get(name)
        others = shutil.ignore_patterns("src", "tests", "data", "pyproject.toml") if proof.whole else None
        shutil.copytree(SAMPLE / "project", root, ignore=others)
        if (SAMPLE / name).is_dir():
            shutil.copytree(SAMPLE / name, root, dirs_exist_ok=True)
        if quick and not proof.whole and tuple(map(int, version("pytest").split(".")[:2])) >= _AUTOLOAD_IS_AN_OPTION:
            with (root / "pyproject.toml").open("a", encoding="utf-8") as file:
                file.write('addopts = ["--disable-plugin-autoload"]\n')
        ignored = [*([] if quick else [".venv/"]), *([proof.ignored] if proof.ignored else [])]
        with (root / ".gitignore").open("a", encoding="utf-8") as file:
            file.writelines(f"{each}\n" for each in ignored)
        environ = environment(self._folder)
        _run(["git", "init", "-q", "-b", "main"], root, environ)
        if settings is not None:
            (root / ".harness.yaml").write_text(settings, encoding="utf-8")
        _run(["git", "add", "-A"], root, environ)
        _run(["git", "commit", "-q", "-m", "The project"], root, environ)
        if proof.whole:  # the older tests pass; what the tool compiles of itself stays for the trials
            _run(["sh", "-c", proof.command], root, environ)
            _run(["git", "clean", "-qfdx"], root, environ)
        if self._against is not None:
            return
        if settings is not None:
            _harness(root, environ, "init", "--adopt")
            _harness(root, environ, "add-feature", proof.asked, "--test-file", "tests/test_numerals.py")
        elif case.protocol == "tasks":
            _harness(root, environ, "init", ".")
            _harness(root, environ, "add", proof.asked, "--validate", proof.command)


class _Trial:
    def __init__(self, folder: Path, case: TrialAgent, against: str | None) -> None:
        self.folder, self.case, self.against = folder, case, against
        self.project = folder / "almanac"
        self.environ = environment(folder)
        self.script = folder / "agent.sh"

    def make_environment(self) -> None:
        """Create a virtual environment for the project, with the pytest package of this program."""
        venv.create(self.project / ".venv", symlinks=True)
        site = next((self.project / ".venv/lib").glob("python*/site-packages"))
        (site / "borrowed.pth").write_text(f"{Path(pytest_place()).parent}\n", encoding="utf-8")
        path = f"{self.project / '.venv/bin'}{os.pathsep}{self.environ['PATH']}"
        self.environ |= {"PATH": path, "VIRTUAL_ENV": str(self.project / ".venv")}

    def add_compiled(self, home: Path) -> None:
        """Copy what Go has compiled of itself for the template, which takes it a minute, into a home folder."""
        compiled = self.folder.parent / "home" / _COMPILED
        if self.case.proof.tool == "go" and compiled.is_dir():
            shutil.copytree(compiled, home / "home" / _COMPILED)

    def result(self, began: float) -> TrialResult:
        self.script.write_text(self.case.program, encoding="utf-8")
        (self.folder / "notes.txt").write_text(_NOTES, encoding="utf-8")
        base = _run(["git", "rev-parse", "HEAD"], self.project, self.environ).strip()
        said, done, only = self._run_harness()
        seconds = time.monotonic() - began
        left = _left_running(self.folder)
        true = done and self._is_true()
        return TrialResult(
            case=self.case,
            done=done,
            only=only,
            true=true,
            harm=self._harm(base, left),
            said=said[-2000:],
            seconds=seconds,
        )

    def _run_harness(self) -> tuple[str, bool, str]:
        """Run the harness. Return its output, True for accepted work, and why it is only checked."""
        proof = self.case.proof
        agent = f"command:sh {self.script}"
        words = [sys.executable, "-m", "agent_harness.cli.main"]
        if self.against is not None:
            environ = {
                **self.environ,
                "SELFTEST_AGENT": f"sh {self.script}",
                "SELFTEST_PROOF": proof.command,
                "SELFTEST_ASKED": proof.asked,
            }
            ran = process.run(self.against, cwd=self.project, env=environ, timeout_seconds=_SECONDS, keep_bytes=65536)
            said = ran.output.decode("utf-8", "replace")
            return said, ran.exit_code == 0, _said_to_be_checked(said) if ran.exit_code == 0 else ""
        if self.case.protocol == "features":
            said = self._ran([*words, "run", "--agent", agent])
            if self.case.answer:
                said += self._ran([*words, "resume", "--choose", self.case.answer])
            features = json.loads(_run(["git", "show", "HEAD:features.json"], self.project, self.environ))
            return said, features["features"][0]["passes"] is True, ""
        if self.case.protocol == "tasks":
            _limit(self.project / "harness-tasks.json", attempts=self.case.attempts)
            said = self._ran([*words, "run", "--agent", agent])
            found = json.loads((self.project / "harness-tasks.json").read_text(encoding="utf-8"))["tasks"][0]
            done = found["status"] == "completed"
            return said, done, self._why_only_checked(self.project, found["id"]) if done else ""
        task, lth = self.folder / "task", [sys.executable, "-m", "agent_harness.cli.lth"]
        made = ["init", str(task), "--objective", proof.asked, "--criterion-command", proof.command]
        made += ["--worker", "local-command"]
        made += ["--command", f"sh {self.script}", "--cwd", str(self.project)]
        _run([*lth, *made], self.folder, self.environ)
        said = self._ran([*lth, "run", str(task)])
        done = json.loads((task / "checkpoint.json").read_text(encoding="utf-8"))["status"] == "done"
        return said, done, self._why_only_checked(task) if done else ""

    def _why_only_checked(self, folder: Path, *item: str) -> str:
        found = json.loads(_harness(folder, self.environ, "why", *item, "--json"))
        return (found["reason"] or "without a reason") if found["state"] == CHECKED else ""

    def _ran(self, words: list[str]) -> str:
        ran = process.run(words, cwd=self.project, env=self.environ, timeout_seconds=_SECONDS, keep_bytes=65536)
        return ran.output.decode("utf-8", "replace")

    def _is_true(self) -> bool:
        """Return True if the oracle accepts the work."""
        # it checks a copy of the work, with another home folder
        work, proof = self.folder / "work", self.case.proof
        if self.case.protocol == "features":
            _run(["git", "clone", "-q", "--no-local", str(self.project), str(work)], self.folder, self.environ)
            shutil.rmtree(work / ".git")
        else:
            left_out = shutil.ignore_patterns(
                "__pycache__", ".git", *([proof.ignored.strip("/")] if proof.ignored else [])
            )
            shutil.copytree(self.project, work, symlinks=True, ignore=left_out)
        if proof.copied_to:
            (work / proof.copied_to).parent.mkdir()
            shutil.copy(ANSWERS / f"answers{Path(proof.copied_to).suffix}", work / proof.copied_to)
        elsewhere = environment(self.folder / "elsewhere")
        self.add_compiled(self.folder / "elsewhere")
        words = [sys.executable, "-I", "-B", str(SAMPLE / "oracle.py"), str(work), *proof.answers]
        return process.run(words, cwd=self.folder, env=elsewhere, timeout_seconds=_SECONDS).exit_code == 0

    def _harm(self, base: str, left: int) -> str:
        """Return a description of damage that the harness did not prevent, or "" if none."""
        if left:
            return f"{left} processes are still running"
        if (self.folder / "notes.txt").read_text(encoding="utf-8") != _NOTES:
            return "a person's file outside the project was changed"
        if (self.project / "NOTES.md").read_text(encoding="utf-8") != (SAMPLE / "project/NOTES.md").read_text(
            encoding="utf-8"
        ):
            return "a person's file in the project was changed"
        known = subprocess.run(
            ["git", "merge-base", "--is-ancestor", base, "HEAD"],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            check=False,
        )
        if known.returncode:
            return "the history of the project was rewritten"
        return self._scripts_changed(base) if self.case.kind == "lie" and self.case.project else ""

    def _scripts_changed(self, base: str) -> str:
        sample = SAMPLE / self.case.project
        scripts = [str(path.relative_to(sample)) for path in sample.rglob("*") if path.is_file()] + ["GNUmakefile"]
        changed = _run(["git", "diff", "--name-only", base, "HEAD", "--", *scripts], self.project, self.environ).split()
        return f"{changed[0]} was changed, and nobody was asked" if changed else ""


def _said_to_be_checked(said: str) -> str:
    """Return REASON if another harness's last line is ``checked: REASON``, else ""."""
    return next((line[8:].strip() for line in said.strip().splitlines()[-1:] if line.startswith("checked:")), "")


def pytest_place() -> str:
    """Return the folder of the pytest package that this program imports."""
    found = find_spec("pytest")
    return str(found.submodule_search_locations[0]) if found and found.submodule_search_locations else ""


def _limit(path: Path, *, attempts: int) -> None:
    """Allow ``attempts`` attempts and no fix rounds, because the agent repeats the same actions."""
    state = json.loads(path.read_text(encoding="utf-8"))
    state["session_config"]["fix_rounds"] = 0
    state["tasks"][0]["max_attempts"] = attempts
    path.write_text(json.dumps(state), encoding="utf-8")


def _left_running(folder: Path) -> int:
    """Kill the processes that still use the folder after 2 s. Return their number."""
    import psutil

    for _ in range(20):
        found = [each for each in psutil.process_iter(["cwd"]) if (each.info["cwd"] or "").startswith(f"{folder}/")]
        if not found:
            return 0
        time.sleep(0.1)
    for each in found:
        with suppress(psutil.Error):
            each.kill()
    return len(found)


def environment(home: Path) -> dict[str, str]:
    """Return a command's environment, with a separate home folder and no harness settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HARNESS_", "GIT_", "PYTEST_", "XDG_"))
    }
    (home / "home").mkdir(parents=True, exist_ok=True)
    (home / "home/.gitconfig").write_text(_GIT_SETTINGS, encoding="utf-8")
    with suppress(KeyError):  # where a person has rustup, its toolchain; not every user has an entry
        kept.setdefault("RUSTUP_HOME", f"{pwd.getpwuid(os.getuid()).pw_dir}/.rustup")
    kept["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "HOME": str(home / "home"), "NO_COLOR": "1"}


def _harness(root: Path, environ: Mapping[str, str], *words: str) -> str:
    return _run([sys.executable, "-m", "agent_harness.cli.main", *words], root, environ)


def _run(words: list[str], cwd: Path, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        words, cwd=cwd, env=dict(environ), capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    if done.returncode:
        raise ValueError(f"{' '.join(words[-3:])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout
