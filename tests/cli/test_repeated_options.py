"""Every option of every command: one that names several things repeats and takes commas, any other is given once."""

from collections.abc import Iterator

import click
import pytest

from agent_harness.cli import app, parallel, status, story, tasks
from agent_harness.cli.lth import LTH
from agent_harness.cli.machine.options import Several
from agent_harness.cli.verbs import HELP, Option, Program
from agent_harness.errors import UsageError
from agent_harness.testing import run_in_process

FREE = ("TEXT", "SPEC", "COMMAND", "FORM=FILE")
"""What is a text of its own, in which a comma means nothing: it repeats, and that is all."""
PLURAL = ("IDS", "EVENTS", "NAMES", "A,B")


def commands(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all below it, with their words."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            if found := command.get_command(context, name):
                yield from commands(found, *path, name)


CLICK = [
    pytest.param(path, each, id=" ".join((*path, each.opts[-1])))
    for path, command in commands(app.cli)
    for each in command.params
    if isinstance(each, click.Option) and not (each.is_flag or each.count)
]
PROGRAMS: list[Program] = [
    *tasks.PROGRAMS.values(),
    *parallel.PROGRAMS.values(),
    parallel.REQUESTS,
    status.STATUS,
    story.STORY,
    tasks.MCP,
    LTH,
]
OWN = [
    pytest.param(program, name, each, id=f"{program.name} {name} {each.word}")
    for program in PROGRAMS
    for name, verb in program.verbs.items()
    for each in verb.options.values()
    if each.value is not None
]


def test_there_are_many() -> None:
    assert len(CLICK) > 90 and len(OWN) > 120


@pytest.mark.parametrize(("path", "option"), CLICK)
def test_an_option_of_click(path: tuple[str, ...], option: click.Option) -> None:
    if option.multiple:
        assert isinstance(option, Several) or option.metavar in FREE
        return
    assert option.metavar not in PLURAL
    word = option.opts[-1]
    words = [path[0], *path[1:], word, "1", word, "2"] if path else [word, "auto", word, "never", "status"]
    done = run_in_process(lambda: app.main(words), "harness")
    assert done.code == 2, done
    assert done.err.splitlines()[0] == f"harness: Option '{word}' takes one value and was given more than once."


@pytest.mark.parametrize(("program", "name", "option"), OWN)
def test_an_option_of_our_own_parser(
    program: Program, name: str, option: Option, capfd: pytest.CaptureFixture[str]
) -> None:
    assert option.many is (option.value in PLURAL)
    kind = getattr(option.kind, "words", ("7",))[0]
    places = ["here"] if program.style.leads else []
    words = [*places, option.word, kind, option.word, kind]
    assert option.word not in HELP
    if option.many:
        assert program.parse(name, words)[option.name] == f"{kind},{kind}"
    elif program is LTH:  # whose contract lets the last one win
        assert program.parse(name, words)[option.name] == kind
        assert f"{option.word} takes one value and was given more than once" in capfd.readouterr().err
    else:
        with pytest.raises(UsageError, match="takes one value and was given more than once"):
            program.parse(name, words)


def test_several_are_all_kept_and_what_is_there_as_a_path_is_one() -> None:
    @click.command()
    @click.option("--it", cls=Several, help="Things.")
    def command(it: tuple[str, ...]) -> tuple[str, ...]:
        return it

    assert command.main(["--it", "a", "--it", "b, c,,"], standalone_mode=False) == ("a", "b", "c")
    assert command.main([], standalone_mode=False) == ()
