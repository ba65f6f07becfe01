"""The command line itself: words in, one clear line out; a word that is not understood never starts anything."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness import __version__
from agent_harness.cli.lth import LTH
from agent_harness.cli.verbs import HelpAsked
from agent_harness.errors import UsageError
from agent_harness.protocols.longtask import options
from agent_harness.protocols.longtask.api import COMMANDS, LongTask
from agent_harness.testing.long_task_project import CommandResult, LongTaskProject, run_lth

RUN = {each.name: each for each in LTH.verbs["run"].options.values()}


def lth(*words: str) -> CommandResult:
    return run_lth(*words)


def test_help_and_version_touch_nothing(tmp_path: Any) -> None:
    for words in ("", "help", "--help", "-h"):
        done = lth(*words.split())
        assert done.code == 0 and all(f"\n  {name} " in done.out for name in LTH.verbs)
    for word in ("--version", "-v"):
        assert lth(word).out == f"lth {__version__}\n"
    for command, verb in LTH.verbs.items():
        done = lth(command, str(tmp_path / "new"), "--help")
        assert done.code == 0 and all(f"\n  {word} " in done.out for word in verb.options)
        assert lth("help", command).out == done.out == lth(command, "-h").out
    assert not list(tmp_path.iterdir())


def test_row_09_init_help_makes_no_folder(tmp_path: Any) -> None:
    command = [sys.executable, "-m", "agent_harness.cli.lth", "init", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0 and b"--template" in done.stdout
    assert not list(tmp_path.iterdir())


def test_every_command_has_a_function() -> None:
    assert COMMANDS.keys() == LTH.verbs.keys()
    for module, name, _ in COMMANDS.values():
        assert callable(getattr(import_module(f"agent_harness.protocols.longtask.{module}"), name))


class Asked(dict[str, object]):
    """Words that remember by which names they were asked for."""

    def __init__(self, **words: str) -> None:
        super().__init__(words)
        self.names: set[object] = set()

    def get(self, name: object, default: object = None) -> Any:
        self.names.add(name)
        return super().get(str(name), default)

    def __contains__(self, name: object) -> bool:
        self.names.add(name)
        return super().__contains__(name)


def test_every_option_of_a_command_is_read_by_its_class() -> None:
    for command, verb in LTH.verbs.items():
        named = {each.name for each in verb.options.values()}
        named -= {"json"} if command != "ls" else set()  # how the answer is shown is no matter of the command
        kind = COMMANDS[command][2]
        assert bool(named) == (kind is not None)
        if kind:
            words = Asked(status="paused", type="test")
            getattr(options, kind)(words)
            assert named <= words.names


def test_an_option_that_means_nothing_is_refused_before_anything_is_read(tmp_path: Any) -> None:
    for command, word in (("run", "timeout-seconds"), ("tail", "limit"), ("verify", "verify-timeout-seconds")):
        with pytest.raises(UsageError, match=f"--{word} must be a positive integer: no"):
            LongTask(tmp_path / "none").answer(command, {word: "no"})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bogus"], "Unknown command: bogus"),
        (["valdate", "x"], "Unknown command: valdate; did you mean validate?"),
        (["tick"], "lth tick needs TASK_DIR right after the command"),
        (["tick", "--dry-run"], "lth tick needs TASK_DIR right after the command"),
        (["tick", ""], "lth tick needs TASK_DIR; it is empty"),
        (["tick", "x", "y"], "Unexpected argument: y"),
        (["tick", "x", "-n"], "Unexpected argument: -n"),
        (["tick", "x", "--"], "lth tick has no option --"),
        (["run", "x", "--dryrun"], "lth run has no option --dryrun; did you mean --dry-run?"),
        (["run", "x", "--sandbox"], "option --sandbox needs a value"),
        (["run", "x", "--sandbox", "--model", "m"], "option --sandbox needs a value"),
        (["run", "x", "--command", "--help"], "option --command needs a value"),
        (["tick", "x", "--dry-run=yes"], "option --dry-run is a flag: --dry-run, --dry-run=true or --dry-run=false"),
        (["init", "x", "--record"], "lth init has no option --record"),
    ],
)
def test_row_10_what_is_not_understood_is_refused(words: list[str], said: str, tmp_path: Any) -> None:
    done = lth(*words)
    assert (done.code, done.out, done.err) == (1, "", f"{said}\n")


def test_row_10_a_mistyped_dry_run_does_not_run(project: LongTaskProject) -> None:
    before = project.tree()
    done = project.lth("run", "--worker", "local", "--command", "touch ran", "--dryrun")
    assert done.code == 1 and project.tree() == before


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["d", "--command=a=b --c"], {"command": "a=b --c"}),
        (["d", "--command", "-x"], {"command": "-x"}),
        (["d", "--command", "--not-ours"], {"command": "--not-ours"}),
        (["d", "--command", "--model=x"], {"command": "--model=x"}),
        (["d", "--command=--model", "--oss"], {"command": "--model", "oss": True}),
        (["d", "--oss=false", "--model", "a", "--model", "b"], {"oss": False, "model": "b"}),
        (["d", "--model="], {"model": ""}),
        (["-d"], {}),
    ],
)
def test_values_flags_and_repetition(words: list[str], expected: dict[str, object]) -> None:
    assert LTH.parse("run", words) == {"folder": words[0], **expected}


WORDS = st.lists(
    st.sampled_from(["d", "-h", "--", "--oss", "--model", "--model=1", "--oss=x", "=", ""]) | st.text(max_size=4)
)


@given(WORDS)
def test_any_words_are_parsed_or_refused(words: list[str]) -> None:
    try:
        options = LTH.parse("run", words)
    except (UsageError, HelpAsked):
        return
    assert options.pop("folder") == words[0] and options.keys() <= RUN.keys()
    assert all(isinstance(value, bool) == (RUN[name].value is None) for name, value in options.items())


def test_the_answer_goes_to_stdout_and_is_readable_by_people(project: LongTaskProject) -> None:
    project.lth("record", "--status", "paused", "--note", "größer → weiter")
    done = project.lth_process("next", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert '  "nextStep": "größer → weiter"\n}\n' in done.out and done.err == ""


def test_a_reader_that_goes_away_is_no_traceback(project: LongTaskProject) -> None:
    running = project.start("summary")
    assert running.stdout and running.stderr
    running.stdout.close()
    assert b"Traceback" not in running.stderr.read()
    running.stderr.close()
    running.wait()


def test_a_fault_of_ours_is_one_line(project: LongTaskProject) -> None:
    (project.root / "runs").mkdir()
    (project.root / "runs/2026-03-01.jsonl").mkdir()
    done = project.lth("tail")
    assert done.code == 1 and len(done.err.splitlines()) == 1 and "Traceback" not in done.err


def test_an_answer_that_cannot_be_written_is_one_line(project: LongTaskProject) -> None:
    command = [sys.executable, "-m", "agent_harness.cli.lth", "next", str(project.root)]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (1, b"Cannot write the answer: No space left on device\n")


def test_a_value_that_is_no_text_is_refused(project: LongTaskProject) -> None:
    before = project.tree()
    command = [sys.executable, "-m", "agent_harness.cli.lth", "record", str(project.root), "--status", "paused"]
    done = subprocess.run([*command, "--note", b"caf\xe9"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"the value of --note is not UTF-8\n")
    assert project.tree() == before
