"""The help of a program that ``options.py`` reads, in the form that click gives the other commands."""

from __future__ import annotations

from textwrap import fill, wrap

from agent_harness.cli.verbs.options import Number, OneOf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.cli.verbs.options import Option, Program

__all__ = ["usage"]

_WIDTH = 78
_WIDEST = 50
"""Columns of what is explained, at most; what is longer stands on a line of its own."""

_HELP = ("-h, --help", "Show this message and exit.")


def usage(program: Program, verb: str = "") -> str:
    """What is printed for ``--help``: of one verb, or what the program is for and its verbs."""
    return _of_verb(program, verb) if verb else _of_program(program)


def _of_program(program: Program) -> str:
    examples = "".join(f"  {line}\n" for line in program.examples) + ("\n" if program.examples else "")
    places = "TASK_DIR" if program.style.leads else "[ARGS]..."
    return (
        f"{_head(program, 'COMMAND', places)}{_wrapped(program.purpose)}\n{examples}"
        f"Options:\n{_rows([*program.options, _HELP])}\n"
        f"Commands:\n{_rows([(name, verb.short) for name, verb in program.verbs.items()])}"
    )


def _of_verb(program: Program, name: str) -> str:
    verb = program.verbs[name]
    rows = [_row(each) for each in verb.options.values() if not each.hidden]
    example = f"\n  Example:  {verb.example}\n" if verb.example else ""
    return (
        f"{_head(program, name, ' '.join(each.shown for each in verb.arguments))}{_wrapped(verb.purpose)}\n"
        f"Options:\n{_rows([*rows, _HELP])}{example}"
    )


def _head(program: Program, verb: str, places: str) -> str:
    line = program.style.wordings["usage"].format(program=program.name, verb=verb, places=places)
    return f"{line.rstrip()}\n\n"


def _row(option: Option) -> tuple[str, str]:
    kind = option.kind
    value = f"[{'|'.join(kind.words)}]" if isinstance(kind, OneOf) else option.value
    notes = [kind.range] if isinstance(kind, Number) else []
    notes += ["required"] if option.required else []
    note = f"  [{'; '.join(notes)}]" if notes else ""
    return f"{option.word} {value or ''}".rstrip(), f"{option.meaning}{note}"


def _wrapped(text: str) -> str:
    """Paragraphs, each wrapped and indented."""
    indent = "  "
    parts = [fill(part, _WIDTH, initial_indent=indent, subsequent_indent=indent) for part in text.split("\n\n")]
    return "\n\n".join(parts) + "\n"


def _rows(rows: list[tuple[str, str]]) -> str:
    """Two columns, the second one wrapped; a first one that leaves no room for it stands on a line of its own."""
    width = max(len(first) for first, _ in rows if len(first) <= _WIDEST) + 2
    lines: list[str] = []
    for first, text in rows:
        beside = wrap(text, _WIDTH - 2 - width) or [""]
        if len(first) >= width:
            beside.insert(0, "")
        heads = [first, *[""] * len(beside)]
        lines += [f"  {head:<{width}}{each}".rstrip() for head, each in zip(heads, beside, strict=False)]
    return "\n".join(lines) + "\n"
