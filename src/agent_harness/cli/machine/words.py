"""All commands of ``harness`` and ``lth`` with their options and arguments, collected from the parsers.

    walk()["harness run"].options["--agent"]      ->  kind of the values that complete this option

Shell completion, ``docs/commands.md`` and the man pages are generated from this data. Each option is therefore defined
only once, in its parser. Source: ``faces.md`` F-HELP-3, F-HELP-4."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click

from agent_harness.cli import lth, parallel, status, story, tasks
from agent_harness.cli.app import LazyGroup, cli
from agent_harness.cli.commands import COMMANDS
from agent_harness.cli.verbs import OneOf, Program, Subcommand, option_row

ITEMS, AGENTS, OPTIONS, FILES = "items", "agents", "options", "files"
"""Kinds of completion values that depend on the current project or folder."""

_ASKED = {
    **dict.fromkeys(("--feature", "--item", "--depends"), ITEMS),
    "--agent": AGENTS,
    "--choose": OPTIONS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandWords:
    verbs: tuple[str, ...] = ()
    options: dict[str, tuple[str, ...] | str | None] = field(default_factory=dict)  # value: words, a kind, or none
    place: tuple[str, ...] | str = ()  # what its first argument may be
    short: str = ""  # one line
    purpose: str = ""  # paragraphs
    takes: str = ""  # what stands behind the command, as its usage has it
    told: tuple[tuple[str, str], ...] = ()  # each option as it is typed, and its meaning
    examples: tuple[str, ...] = ()


def walk() -> dict[str, CommandWords]:
    """Return the options and help of each command. A key is a command line such as ``lth run``."""
    found = dict(_of_group("harness", cli)) | dict(_of_program("lth", lth.LTH))
    named = {f"harness {name}": short for name, (_, _, short) in COMMANDS.items()}
    return {path: replace(each, short=named.get(path, each.short)) for path, each in found.items()}


def _of_group(path: str, group: click.Group) -> Iterator[tuple[str, CommandWords]]:
    is_whole = isinstance(group, LazyGroup)
    names = list(COMMANDS) if is_whole else sorted(group.commands)
    shown = [name for name in names if name != "hook"]
    yield path, CommandWords(verbs=tuple(shown), options=_options(group), **_help_of(path, group))
    programs = {**tasks.PROGRAMS, **parallel.PROGRAMS}
    verbs = {**status.STATUS.verbs, **story.STORY.verbs, **parallel.REQUESTS.verbs, **tasks.MCP.verbs}
    for name in shown:
        if is_whole and name in programs:
            yield from _of_program(f"{path} {name}", programs[name])
        elif is_whole and name in verbs:
            yield f"{path} {name}", _of_verb(verbs[name])
        else:
            found = group.get_command(click.Context(group), name)
            assert found is not None
            if isinstance(found, click.Group):
                yield from _of_group(f"{path} {name}", found)
            else:
                told = _help_of(f"{path} {name}", found)
                yield f"{path} {name}", CommandWords(options=_options(found), place=_place(found), **told)


def _help_of(path: str, command: click.Command) -> dict[str, Any]:
    context = click.Context(command, info_name=path)
    rows = [each.get_help_record(context) for each in command.params if isinstance(each, click.Option)]
    examples = inspect.cleandoc(command.epilog or "").replace("\b\n", "").removeprefix("Examples:")
    return {
        "short": command.short_help or "",
        "purpose": inspect.cleandoc(command.help or "").replace("\b\n", ""),
        "takes": " ".join(command.collect_usage_pieces(context)),
        "told": tuple(row for row in rows if row),
        "examples": tuple(line.strip() for line in examples.removeprefix("Example:").splitlines() if line.strip()),
    }


def _options(command: click.Command) -> dict[str, tuple[str, ...] | str | None]:
    found: dict[str, tuple[str, ...] | str | None] = {}
    for each in command.params:
        if isinstance(each, click.Option) and not each.hidden:
            for word in (*each.opts, *each.secondary_opts):
                if word.startswith("--"):
                    found[word] = _click_value(word, each)
    return {**found, "--help": None}


def _click_value(word: str, option: click.Option) -> tuple[str, ...] | str | None:
    if option.is_flag or option.count:
        return None
    if isinstance(option.type, click.Choice):
        return tuple(str(each) for each in option.type.choices)
    if isinstance(words := getattr(option.type, "words", None), tuple):
        return words
    return _ASKED.get(word, FILES)


def _place(command: click.Command) -> tuple[str, ...] | str:
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    if arguments and isinstance(arguments[0].type, click.Choice):
        return tuple(str(each) for each in arguments[0].type.choices)
    return _kind_of(arguments[0].human_readable_name) if arguments else ()


def _kind_of(shown: str) -> str:
    """Return the kind of values of an argument, from its name in the usage line, such as ``SESSION|ITEM``."""
    return FILES if {"ITEM", "ID"}.isdisjoint(re.findall(r"\w+", shown)) else ITEMS


def _of_program(path: str, program: Program) -> Iterator[tuple[str, CommandWords]]:
    yield (
        path,
        CommandWords(
            verbs=tuple(program.verbs),
            options={"--help": None},
            purpose=program.purpose,
            takes="COMMAND TASK_DIR [OPTIONS]" if program.style.leads else "COMMAND [OPTIONS] [ARGS]...",
            told=tuple(program.options),
            examples=tuple(program.examples),
        ),
    )
    for name, verb in program.verbs.items():
        yield f"{path} {name}", _of_verb(verb)


def _of_verb(verb: Subcommand) -> CommandWords:
    options: dict[str, tuple[str, ...] | str | None] = {"--help": None}
    shown = [each for each in verb.options.values() if not each.hidden]
    for each in shown:
        words = each.kind.words if isinstance(each.kind, OneOf) else _ASKED.get(each.word, FILES)
        options[each.word] = words if each.value else None
    return CommandWords(
        options=options,
        place=_kind_of(verb.arguments[0].shown) if verb.arguments else (),
        short=verb.short,
        purpose=verb.purpose,
        takes=" ".join(each.shown for each in verb.arguments),
        told=tuple(map(option_row, shown)),
        examples=tuple(verb.example.splitlines()),
    )
