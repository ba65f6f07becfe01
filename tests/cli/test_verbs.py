"""The words of `harness task`, `session` and `rescue`: each verb is a row of one table and a method of ``TaskList``."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.cli import app
from agent_harness.cli.commands import COMMANDS, is_fast
from agent_harness.cli.tasks import LIST_NAMES, PROGRAMS
from agent_harness.cli.verbs import Argument, HelpAsked, Number, OneOf, Option, Program, Style, Subcommand, usage
from agent_harness.errors import HarnessError, UsageError
from agent_harness.protocols.tasklist.api import CATEGORIES, TaskList

VERBS = [(group, name) for group, program in PROGRAMS.items() for name in program.verbs]


def takes(verb: Subcommand) -> list[str]:
    """Return the names under which a command passes its values."""
    return [each.name.replace("-", "_") for each in (*verb.arguments, *verb.options.values())]


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a command line."""
    code = app.main([*words])
    out, err = capsys.readouterr()
    return code, out, err


def test_the_light_commands_are_those_that_agents_call() -> None:
    assert {*PROGRAMS, "mcp"} == {name for name, row in COMMANDS.items() if row[1] == "cli.tasks"}
    assert all(map(is_fast, PROGRAMS))
    group = app.cli
    assert isinstance(group, click.Group)
    for name in PROGRAMS:
        found = group.get_command(click.Context(group), name)
        assert found is not None and [type(each) for each in found.params] == [click.Argument]


@pytest.mark.parametrize(("group", "name"), VERBS)
def test_every_verb_is_a_method_that_takes_what_its_words_give(group: str, name: str) -> None:
    verb = PROGRAMS[group].verbs[name]
    names = takes(verb)
    assert len(names) == len(set(names))
    act = verb.act or getattr(TaskList, f"{'' if group == 'task' else f'{group}_'}{name.replace('-', '_')}")
    parameters = inspect.signature(act).parameters
    own = [each for each in names if each not in (*LIST_NAMES, "text", "json")]
    assert set(own) <= set(parameters)
    given = {"self", "task_list", *(each for each, one in parameters.items() if one.default is not one.empty)}
    assert set(parameters) <= {*own, *given}
    required = {each.name for each in verb.arguments if each.required}
    required |= {each.name for each in verb.options.values() if each.required}
    assert set(parameters) - given <= required


@pytest.mark.parametrize(("group", "name"), VERBS)
@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_every_option_and_an_example_that_parses(
    group: str, name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(capsys, group, name, word)
    assert (code, err) == (0, "")
    verb = PROGRAMS[group].verbs[name]
    assert out.startswith(f"Usage: harness {group} {name} [OPTIONS]")
    shown = [line.split()[0].rstrip(",") for line in out.splitlines() if line.startswith("  -")]
    assert shown == [*(each.word for each in verb.options.values() if not each.hidden), "-h"]
    assert max(map(len, out.splitlines())) <= 100
    if verb.example:
        import shlex

        assert out.splitlines()[-1] == f"  Example:  {verb.example}"
        words = shlex.split(verb.example)
        assert words[:3] == ["harness", group, name]
        PROGRAMS[group].parse(name, words[3:])


@pytest.mark.parametrize("group", PROGRAMS)
def test_help_of_a_group_lists_its_verbs(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words, code in (((group,), 2), ((group, "--help"), 0), ((group, "-h"), 0)):
        assert ran(capsys, *words) == (code, usage(PROGRAMS[group]), "")
    assert all(f"\n  {name} " in usage(PROGRAMS[group]) for name in PROGRAMS[group].verbs)
    assert re.search(rf"[ ,]{group}[,\n]", app.cli.get_help(click.Context(app.cli)))


SAID = [
    ("task nxet", "No such command 'nxet'. Did you mean 'next'?", "harness task --help"),
    ("task dance", "No such command 'dance'.", "harness task --help"),
    ("task --bogus next", "No such option '--bogus'.", "harness task --help"),
    ("task claim --leese 3", "No such option '--leese'. Did you mean '--lease'?", "harness task claim --help"),
    (
        "task rollback t --dryrun",
        "No such option '--dryrun'. Did you mean '--dry-run'?",
        "harness task rollback --help",
    ),
    ("task claim -x", "No such option '-x'.", "harness task claim --help"),
    ("task claim --lease", "Option '--lease' requires an argument.", "harness task claim --help"),
    ("task claim --lease --root", "Option '--lease' requires an argument.", "harness task claim --help"),
    ("task claim --text=1", "Option '--text' does not take a value.", "harness task claim --help"),
    ("task claim --lease 0", "Invalid value for '--lease': 0.0 is not in the range x>0.", "harness task claim --help"),
    (
        "task claim --lease x",
        "Invalid value for '--lease': 'x' is not a valid float range.",
        "harness task claim --help",
    ),
    (
        "task claim --lease nan",
        "Invalid value for '--lease': nan is not a finite number.",
        "harness task claim --help",
    ),
    (
        "task claim --dirty odd",
        "Invalid value for '--dirty': 'odd' is not one of 'remember', 'refuse'.",
        "harness task claim --help",
    ),
    ("task claim a", "Got unexpected extra argument (a)", "harness task claim --help"),
    ("task claim -- a b", "Got unexpected extra arguments (a b)", "harness task claim --help"),
    ("task complete", "Missing argument 'ID'.", "harness task complete --help"),
    ("task run-step t", "Missing argument '-- CMD...'.", "harness task run-step --help"),
    (
        "task checkpoint t one x",
        "Invalid value for 'M/N': 'one' must be of the form M/N, such as 2/4",
        "harness task checkpoint --help",
    ),
    (
        "task set t a",
        "Invalid value for 'FIELD=VALUE': 'a' must be of the form FIELD=VALUE",
        "harness task set --help",
    ),
    ("task fail t x", f"Missing option '--category'. Choose from: {', '.join(CATEGORIES)}", "harness task fail --help"),
    ("session strt", "No such command 'strt'. Did you mean 'start'?", "harness session --help"),
    (
        "rescue prune --older-than -1",
        "Invalid value for '--older-than': -1.0 is not in the range x>=0.",
        "harness rescue prune --help",
    ),
]


@pytest.mark.parametrize(("line", "said", "hint"), SAID)
def test_a_word_that_is_not_understood_is_one_line_and_the_next_command(
    line: str, said: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(capsys, *line.split())
    answer = json.loads(out)
    group, verb, *_ = line.split()
    assert (code, err, answer["verb"]) == (2, "", verb if group == "task" else f"{group} {verb}")
    assert answer["error"] == {"code": "usage", "message": said, "hint": hint}
    assert ran(capsys, *line.split(), "--text")[0] == 2


def test_without_a_verb_nothing_is_called_anything_in_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert ran(capsys, "task", "--text") == (2, "", "harness: No such option '--text'.\nnext: harness task --help\n")


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("claim", [], {}),
        ("claim", ["--lease=60", "--task", "a"], {"lease_seconds": 60.0, "task_id": "a"}),
        ("claim", ["--lease", "90"], {"lease_seconds": 90.0}),
        ("complete", ["a", "-mtext", "--no-commit"], {"task_id": "a", "message": "text", "commit": False}),
        ("complete", ["-m", "-x", "a"], {"task_id": "a", "message": "-x"}),
        ("complete", ["--", "-m"], {"task_id": "-m"}),
        (
            "checkpoint",
            ["--text", "a", "1/3", "b c"],
            {"text": True, "task_id": "a", "step": (1, 3), "description": "b c"},
        ),
        (
            "run-step",
            ["a", "--", "make", "-j", "--root", "x"],
            {"task_id": "a", "command": ("make", "-j", "--root", "x")},
        ),
        ("run-step", ["a", "echo", "-n", "--odd=1"], {"task_id": "a", "command": ("echo", "-n", "--odd=1")}),
        ("set", ["a", "b=c=d", "e="], {"task_id": "a", "changes": (("b", "c=d"), ("e", ""))}),
        ("recover", [], {}),
        ("next", ["--token="], {"token": ""}),
    ],
)
def test_words_become_values(name: str, words: list[str], expected: dict[str, Any]) -> None:
    assert PROGRAMS["task"].parse(name, words) == expected


WORDS = st.lists(
    st.sampled_from(["a", "-h", "--", "-", "--text", "--lease", "--lease=1", "-mx", "1/2", "--json=1", "b=c", ""])
    | st.text(max_size=4)
)


@given(st.sampled_from(VERBS), WORDS)
def test_any_words_are_parsed_or_refused(which: tuple[str, str], words: list[str]) -> None:
    group, name = which
    verb = PROGRAMS[group].verbs[name]
    try:
        found = PROGRAMS[group].parse(name, words)
    except HelpAsked as asked:
        assert asked.verb == name and {"-h", "--help"} & set(words)
        return
    except UsageError as error:
        assert error.message and error.hint == f"harness {group} {name} --help"
        return
    assert {each.replace("-", "_") for each in found} <= set(takes(verb))


def test_a_value_of_a_kind_is_read_by_it() -> None:
    bare = dict.fromkeys(
        ("verb", "option", "missing", "extra", "value", "flag", "bad", "required", "meant", "hint"), "{word}"
    )
    style = Style(leads=False, flag_values={"yes": True, "no": False}, text=str, overridden=None, **bare)
    verb = Subcommand(
        "try",
        Argument("number", "N", Number(1)),
        Option("--kind", "WORD", "which", OneOf("a", "b"), required=True),
        Option("--off", None, "not", name="on", sets=False),
    )
    program = Program("x", "x", {"try": verb}, style)
    assert program.parse("try", ["1", "--kind", "a", "--off=no"]) == {"number": 1.0, "kind": "a", "on": True}
    for words in (["0", "--kind", "a"], ["1"], ["1", "--kind", "c"], ["1", "--kind", "a", "--off=x"]):
        with pytest.raises(HarnessError):
            program.parse("try", words)


@pytest.mark.parametrize("words", [["task", "next"], ["task", "bogus"], ["task", "--help"]])
def test_a_reader_that_goes_away_is_no_traceback(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agent_harness.cli.main", *words]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1 and b"Traceback" not in done.stderr
