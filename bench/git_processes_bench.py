"""How many git processes a command starts: completing a task, one accepted feature session, a status.

A program named git that comes first in PATH notes each call and becomes the real one, so that every process is
counted, whoever starts it. Run as a program, it also prints which function asked for what.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import timing

import project

GIT = ("git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost")
CALLERS = 4  # functions named for each call, the innermost first

# Notes the subcommand, the first word that is no option, and becomes the real program.
COUNTER = """\
#!/bin/sh
word=none skip=
for each; do
  case "$skip$each" in
    -c|-C|--git-dir|--work-tree) skip=x ;;
    -*) ;;
    x*) skip= ;;
    *) word=$each; break ;;
  esac
done
echo "$word" >>'{log}'
exec '{git}' "$@"
"""

# Is found by every Python that starts: notes which functions of the harness stand behind each call of git.
WITNESS = """\
import os, sys

def witness(event, args):
    if event != "subprocess.Popen" or os.path.basename(os.fsdecode(args[0])) != "git":
        return
    frame, names = sys._getframe(), []
    while frame is not None:
        file = frame.f_code.co_filename
        if "agent_harness" in file and "/kernel/git/" not in file:
            module = file.rpartition("agent_harness/")[2].removesuffix(".py").replace("/", ".")
            names.append(f"{{module}}:{{frame.f_code.co_name}}")
        frame = frame.f_back
    word = next((each for each in args[1][1:] if not each.startswith("-")), "none")
    with open({log!r}, "a") as file:
        file.write(f"{{word}}\\t{{' < '.join(names[:{callers}])}}\\n")

sys.addaudithook(witness)
"""

PLAY = """\
agent: {prefixes: true}
turns:
  - times: 1
    do:
      - write: {path: tests/test_thing_1.py, text: "from thing import one\\ndef test_it():\\n    assert one() == 1\\n"}
      - write: {path: thing.py, text: "def one():\\n    return 1\\n"}
      - append: {path: claude-progress.txt, text: "\\nThing 1 is there.\\n"}
      - evidence: 1
      - claim: 1
"""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """The git processes of one command."""

    words: Counter[str]  # subcommand -> how often
    callers: Counter[tuple[str, str]]  # subcommand and who asked -> how often

    @property
    def total(self) -> int:
        """All of them."""
        return self.words.total()


def measure() -> Mapping[str, float]:
    """Processes of each command, by the name of its bar."""
    return {name: float(counts.total) for name, counts in counted().items()}


def counted() -> dict[str, Counts]:
    """What each command starts, in a new project of its kind."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        meter = Meter(place / "meter", timing.environment(place))
        return {**task_list(place / "tasks", meter), **feature_session(place / "features", meter)}


class Meter:
    """Runs commands and tells what git processes they start."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        git = shutil.which("git")
        if git is None:
            raise SystemExit("there is no git to count")
        self.env = dict(env)
        self._words, self._callers = folder / "words", folder / "callers"
        folder.mkdir()
        counter = folder / "git"
        counter.write_text(COUNTER.format(log=self._words, git=git))
        counter.chmod(0o755)
        (folder / "sitecustomize.py").write_text(WITNESS.format(log=str(self._callers), callers=CALLERS))
        counting = {"PATH": f"{folder}{os.pathsep}{self.env['PATH']}", "PYTHONPATH": str(folder)}
        counting["HARNESS_SANDBOX"] = "off"  # what counts writes beside the project, also from within an agent
        self._counting_env = {**self.env, **counting}

    def run(self, cwd: Path, *words: str) -> str:
        """What a command prints, which must succeed; nothing is counted."""
        return _run(cwd, self.env, words)

    def commit(self, cwd: Path, message: str) -> None:
        """Commits everything, as a person would."""
        self.run(cwd, *GIT, "add", ".")
        self.run(cwd, *GIT, "commit", "-q", "-m", message)

    def count(self, cwd: Path, *words: str) -> Counts:
        """Runs a command that must succeed."""
        for log in (self._words, self._callers):
            log.write_text("")
        _run(cwd, self._counting_env, words)
        rows = (line.split("\t") for line in self._callers.read_text().splitlines())
        return Counts(
            words=Counter(self._words.read_text().split()), callers=Counter((word, names) for word, names in rows)
        )


def _run(cwd: Path, env: Mapping[str, str], words: Sequence[str]) -> str:
    done = subprocess.run(
        words, cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def task_list(cwd: Path, meter: Meter) -> dict[str, Counts]:
    """A list of three tasks, one of them claimed and worked on."""
    cwd.mkdir()
    (cwd / "app.py").write_text("VALUE = 1\n")
    meter.run(cwd, *GIT, "init", "-q", "-b", "main")
    meter.run(cwd, project.HARNESS, "init", ".")
    for number in (1, 2, 3):
        meter.run(cwd, project.HARNESS, "add", f"Write part {number}", "--validate", f"test -s part_{number}.txt")
    meter.commit(cwd, "First")
    who = ("--worker", "bench", "--session", "bench")
    meter.run(cwd, project.HARNESS, "session", "start", *who)
    token = json.loads(meter.run(cwd, project.HARNESS, "task", "claim", *who))["token"]
    (cwd / "part_1.txt").write_text("here\n")
    complete = ("task", "complete", "task-001", *who, "--token", token)
    return {
        "git-task-complete": meter.count(cwd, project.HARNESS, *complete),
        "git-list-status": meter.count(cwd, project.HARNESS, "status"),
    }


def feature_session(cwd: Path, meter: Meter) -> dict[str, Counts]:
    """A planned project whose first feature is built by an agent that plays a script."""
    project.planned(cwd, meter.env)
    (cwd / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:benchmark\n"
    )  # it asks git for the version of the project
    meter.commit(cwd, "Settings of the tests")
    play = cwd.with_name("play.yaml")
    play.write_text(PLAY)
    agent = ("--agent", f"scripted:{play}", "--sessions", "1")
    counts = {
        "git-feature-session": meter.count(cwd, project.HARNESS, "run", *agent),
        "git-project-status": meter.count(cwd, project.HARNESS, "status"),
    }
    if '"passes": true' not in (cwd / "features.json").read_text():
        raise SystemExit("the feature was not accepted: there is nothing to count")
    return counts


def main(words: list[str]) -> None:
    """Prints the counts, with callers if asked for."""
    parser = argparse.ArgumentParser(description="count the git processes that the harness starts")
    parser.add_argument("--callers", action="store_true", help="name the functions behind each call")
    wanted = parser.parse_args(words)
    for name, counts in counted().items():
        parts = ", ".join(f"{word} {count}" for word, count in counts.words.most_common())
        print(f"{name:<22}{counts.total:>4}   {parts}")
        if wanted.callers:
            for (word, names), count in counts.callers.most_common():
                print(f"  {count:>3}  {word:<16}{names}")


if __name__ == "__main__":
    main(sys.argv[1:])
