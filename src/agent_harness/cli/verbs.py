"""Fast command-line parser for the commands that agents and schedulers call on every step.

`lth`, `harness task`, `harness session` and `harness rescue` are each one `Program`: a table of verbs with their
arguments and options. Nothing slow is imported, because click alone would double the start time. The help looks like
the help of the click commands. Source: ``longtask.md`` 2, ``tasklist.md`` 13.3."""

from __future__ import annotations

from agent_harness.errors import Interrupted, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

__all__ = [
    "JSON",
    "STYLE",
    "Argument",
    "HelpAsked",
    "Number",
    "OneOf",
    "Option",
    "Program",
    "Style",
    "Subcommand",
    "guarded",
    "option_row",
    "parts",
    "usage",
    "utf8_text",
]


HELP = ("-h", "--help")


class HelpAsked(Exception):
    """Exception for a request for help. If ``verb`` is empty, the user wants the program's help."""

    def __init__(self, verb: str) -> None:
        super().__init__(verb)
        self.verb = verb


# ---- kinds of values: called with the word; the message of ``ValueError`` describes the error


def utf8_text(word: str) -> str:
    """Return the word unchanged. Raise ``ValueError`` if UTF-8 cannot encode the word."""
    try:
        word.encode()
    except UnicodeEncodeError:
        raise ValueError("is not UTF-8") from None
    return word


def parts(text: str) -> list[str]:
    """Return the stripped, non-empty entries of a comma-separated list."""
    return [part.strip() for part in text.split(",") if part.strip()]


class OneOf:
    def __init__(self, *words: str) -> None:
        self.words = words

    def __call__(self, word: str) -> str:
        if word not in self.words:
            raise ValueError(f"{word!r} is not one of {', '.join(map(repr, self.words))}.")
        return word


class Number:
    """Parser of a finite number above 0. If ``least`` is set, the number must be at least ``least``."""

    def __init__(self, least: float | None = None, kind: Callable[[str], float] = float) -> None:
        self.least = least
        self.kind = kind
        self.range = "x>0" if least is None else f"x>={least:g}"

    def __call__(self, word: str) -> float:
        try:
            number = self.kind(word)
        except ValueError:
            name = "integer" if self.kind is int else "float"
            raise ValueError(f"{word!r} is not a valid {name} range.") from None
        if number <= 0 if self.least is None else number < self.least:
            raise ValueError(f"{number} is not in the range {self.range}.")
        if not number < float("inf"):
            raise ValueError(f"{word} is not a finite number.")
        return number


# ---- the table


class Argument:
    """Positional argument of a verb. If ``many`` is True, it takes all remaining words."""

    def __init__(
        self,
        name: str,
        shown: str,
        kind: Callable[[str], object] | None = None,
        *,
        required: bool = True,
        many: bool = False,
    ) -> None:
        self.name = name
        self.shown = shown
        self.kind = kind
        self.required = required
        self.many = many


class Option:
    """Option of a verb. An option without ``value`` is a flag that stores ``sets``."""

    def __init__(
        self,
        word: str,
        value: str | None,
        meaning: str,
        kind: Callable[[str], object] | None = None,
        *,
        name: str | None = None,
        sets: bool = True,
        required: bool = False,
        hidden: bool = False,
        many: bool = False,
    ) -> None:
        self.word = word
        self.many = many
        self.value = f"[{'|'.join(kind.words)}]" if isinstance(kind, OneOf) else value
        self.meaning = meaning
        self.kind = kind
        self.name = name or word.lstrip("-")
        self.sets = sets
        self.required = required
        self.hidden = hidden


JSON = Option("--json", None, "Print one JSON object on stdout.")


class Subcommand:
    """Verb of a program. The function ``act`` carries it out."""

    def __init__(
        self,
        short: str,
        *takes: Argument | Option,
        purpose: str = "",
        example: str = "",
        forwards: bool = False,
        act: Callable[..., Any] | None = None,
    ) -> None:
        self.short = short
        self.arguments = tuple(each for each in takes if isinstance(each, Argument))
        self.options = {each.word: each for each in takes if isinstance(each, Option)}
        self.purpose = purpose or short
        self.example = example
        self.forwards = forwards  # unknown options belong to a command that the verb runs
        self.act = act  # by default, the method with the verb's name


class Style:
    """Rules for parsing a program's command line, and its error texts."""

    def __init__(
        self,
        *,
        leads: bool,
        flag_values: Mapping[str, bool],
        text: Callable[[str], object],
        overridden: Callable[[str], None] | None = None,
        **wordings: str,
    ) -> None:
        self.overridden = overridden  # called if a single-value option is repeated; without it, an error
        self.leads = leads  # the argument must be the first word
        self.flag_values = flag_values  # by the text after the flag's "="
        self.text = text  # parses values without a type
        self.wordings = wordings


STYLE = Style(
    leads=False,
    flag_values={},
    text=str,
    verb="No such command '{word}'.{meant}",
    option="No such option '{word}'.{meant}",
    missing="Missing argument '{word}'.",
    required="Missing option '{word}'.{of}",
    extra="Got unexpected extra argument{many} ({words})",
    value="Option '{word}' requires an argument.",
    twice="Option '{word}' takes one value and was given more than once.",
    flag="Option '{word}' does not take a value.",
    bad="Invalid value for '{word}': {why}",
    meant=" Did you mean '{near}'?",
    hint="{program} {verb} --help",
    usage="Usage: {program} {verb} [OPTIONS] {places}",
)
"""Style of the `harness` commands. It equals click's style, which the other commands use."""


class Program:
    """Program whose command lines have the form `NAME VERB WORDS...`."""

    def __init__(
        self,
        name: str,
        purpose: str,
        verbs: Mapping[str, Subcommand],
        style: Style,
        *,
        aliases: Mapping[str, str] | None = None,
        options: Iterable[tuple[str, str]] = (),
        examples: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.purpose = purpose
        self.verbs = verbs
        self.style = style
        self.aliases = aliases or {}
        self.options = list(options)
        self.examples = list(examples)

    def verb(self, word: str) -> str:
        """Return the name of the verb with the name or alias ``word``."""
        if word in HELP:
            raise HelpAsked("")
        name = self.aliases.get(word, word)
        if name not in self.verbs:
            if word.startswith("-") and not self.style.leads:
                raise self._no("option", "", word=word)
            raise self._no("verb", "", word=word, known=[*self.verbs, *self.aliases])
        return name

    def parse(self, name: str, words: list[str]) -> dict[str, object]:
        """Return the values of a verb's arguments and options by name. Raise ``UsageError`` if a word is invalid."""
        verb, style = self.verbs[name], self.style
        given: dict[str, object] = {}
        rest = words[::-1]
        places = [self._leading(name, verb, rest)] if style.leads else []
        while rest:
            word = rest.pop()
            if word in HELP:
                raise HelpAsked(name)
            if word == "--" and not style.leads:
                places += rest[::-1]
                break
            named, equals, value = word.partition("=") if word[:2] == "--" else (word[:2], word[2:], word[2:])
            option = verb.options.get(named)
            if option:
                found = self._value(name, verb, option, value if equals else None, rest)
                given[option.name] = (
                    self._again(name, option, given[option.name], found) if option.name in given else found
                )
            elif word.startswith("--" if style.leads else "-") and word != "-" and not verb.forwards:
                raise self._no("option", name, word=named, known=verb.options)
            else:
                places.append(word)
        self._place(name, verb, places, given)
        return given

    def _leading(self, name: str, verb: Subcommand, rest: list[str]) -> str:
        if rest and rest[-1] in HELP:
            raise HelpAsked(name)
        if rest and not rest[-1].startswith("--"):
            if not rest[-1]:
                raise self._no("empty", name, word=verb.arguments[0].shown)
            return rest.pop()
        if verb.arguments[0].required:
            raise self._no("missing", name, word=verb.arguments[0].shown)
        return "."

    def _value(self, name: str, verb: Subcommand, option: Option, value: str | None, rest: list[str]) -> object:
        if option.value is None:
            if value is None:
                return option.sets
            if value not in self.style.flag_values:
                raise self._no("flag", name, word=option.word)
            return self.style.flag_values[value] is option.sets
        if value is None:
            if not rest or rest[-1] == "--help" or rest[-1] in verb.options:
                raise self._no("value", name, word=option.word)
            value = rest.pop()
        return self._read(name, option.word, option.kind, value)

    def _again(self, name: str, option: Option, before: object, value: object) -> object:
        if option.many:
            return f"{before},{value}"
        if option.value is not None:
            if self.style.overridden is None:
                raise self._no("twice", name, word=option.word)
            self.style.overridden(option.word)
        return value

    def _read(self, name: str, word: str, kind: Callable[[str], object] | None, value: str) -> object:
        try:
            return (kind or self.style.text)(value)
        except ValueError as error:
            raise self._no("bad", name, word=word, why=str(error)) from None

    def _place(self, name: str, verb: Subcommand, places: list[str], given: dict[str, object]) -> None:
        for argument in verb.arguments:
            end = len(places) if argument.many else 1
            mine, places = places[:end], places[end:]
            if argument.required and not mine:
                raise self._no("missing", name, word=argument.shown)
            read = [self._read(name, argument.shown, argument.kind, each) for each in mine]
            if read:
                given[argument.name] = tuple(read) if argument.many else read[0]
        if places:
            many = "s" if len(places) > 1 else ""
            raise self._no("extra", name, word=places[0], words=" ".join(places), many=many)
        for option in verb.options.values():
            if option.required and option.name not in given:
                of = f" Choose from: {', '.join(option.kind.words)}" if isinstance(option.kind, OneOf) else ""
                raise self._no("required", name, word=option.word, of=of)

    def _no(self, wording: str, verb: str, *, word: str, known: Iterable[str] = (), **parts: str) -> UsageError:
        wordings, near = self.style.wordings, nearest(word, known)
        parts |= {"program": self.name, "verb": verb, "word": word}
        text = wordings[wording].format(meant=wordings["meant"].format(near=near) if near else "", **parts)
        return UsageError(text, hint=" ".join(wordings["hint"].format(**parts).split()) or None)


def guarded(program: Program, run: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a command and return its exit code. Print the requested help, or any error."""
    try:
        return run(words)
    except HelpAsked as asked:
        print(usage(program, asked.verb), end="")
        return 0
    except BrokenPipeError:
        raise  # the reader has gone away
    except (Exception, KeyboardInterrupt) as error:  # a person never meets a traceback
        from agent_harness.cli import failure

        shown = error if isinstance(error, Exception) else Interrupted("Interrupted")
        return failure.show_any(shown, as_json="--json" in words)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most similar to ``word``, or "" if no word is similar."""
    squeezed = {each.replace("-", ""): each for each in known}
    if not squeezed:
        return ""
    from difflib import get_close_matches

    found = get_close_matches(word.replace("-", ""), squeezed, 1, 0.6)
    return squeezed[found[0]] if found else ""


_WIDTH = 78
_WIDEST = 50
"""Maximum width of the left help column, in characters. A wider entry gets a line of its own."""

_HELP = (", ".join(HELP), "Show this message and exit.")


def usage(program: Program, verb: str = "") -> str:
    """Return the ``--help`` text of a verb. If ``verb`` is empty, return the program's text."""
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
    rows = [option_row(each) for each in verb.options.values() if not each.hidden]
    head = "Examples:\n    " if "\n" in verb.example else "Example:  "
    examples = verb.example.replace("\n", "\n    ")
    example = f"\n  {head}{examples}\n" if examples else ""
    return (
        f"{_head(program, name, ' '.join(each.shown for each in verb.arguments))}{_wrapped(verb.purpose)}\n"
        f"Options:\n{_rows([*rows, _HELP])}{example}"
    )


def _head(program: Program, verb: str, places: str) -> str:
    line = program.style.wordings["usage"].format(program=program.name, verb=verb, places=places)
    return f"{line.rstrip()}\n\n"


def option_row(option: Option) -> tuple[str, str]:
    notes = [option.kind.range] if isinstance(option.kind, Number) else []
    notes += ["required"] if option.required else []
    notes += ["repeat it, or use commas"] if option.many else []
    note = f"  [{'; '.join(notes)}]" if notes else ""
    return f"{option.word} {option.value or ''}".rstrip(), f"{option.meaning}{note}"


def _wrapped(text: str) -> str:
    from textwrap import fill

    indent = "  "
    parts = [fill(part, _WIDTH, initial_indent=indent, subsequent_indent=indent) for part in text.split("\n\n")]
    return "\n\n".join(parts) + "\n"


def _rows(rows: list[tuple[str, str]]) -> str:
    from textwrap import wrap

    width = max(len(first) for first, _ in rows if len(first) <= _WIDEST) + 2
    lines: list[str] = []
    for first, text in rows:
        beside = wrap(text, _WIDTH - 2 - width) or [""]
        if len(first) >= width:
            # too wide for the first column, so the entry gets its own line
            beside.insert(0, "")
        heads = [first, *[""] * len(beside)]
        lines += [f"  {head:<{width}}{each}".rstrip() for head, each in zip(heads, beside, strict=False)]
    return "\n".join(lines) + "\n"
