"""Expected values in shell text: what tests compare, what grep looks for, what is handed to diff, one-liners.

The text is read once into words that know where each of their letters stands, so that an edit of a value is an edit of
the text. Options stay as they are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.verification.expecting import literals
from agent_harness.verification.expecting.edits import Edit, moved, other_number, other_pattern, other_text
from agent_harness.verification.expecting.python import expected_in_python
from agent_harness.verification.expecting.shellwords import Reader, ShellCommand, ShellWord

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_DEPTH = 8
_OPENING = frozenset({"if", "while", "until", "elif"})
_SKIPPED = frozenset(
    {
        "then",
        "do",
        "else",
        "{",
        "time",
        "exec",
        "command",
        "env",
        "nice",
        "sudo",
        "builtin",
        "local",
        "readonly",
        "export",
        "declare",
    }
)
_WRAPPING = {
    "timeout": (("-k", "-s"), 1),
    "xargs": (("-I", "-n", "-P", "-L", "-d"), 0),
}
_NEAR = 100  # commands
_LANGUAGE_OF = {
    "python": "python", "python3": "python", "node": "js", "nodejs": "js", "bun": "js", "deno": "js",
    "perl": "perl", "ruby": "ruby", "php": "php", "awk": "awk", "gawk": "awk", "mawk": "awk", "nawk": "awk",
    "sqlite3": "sql", "psql": "sql", "mysql": "sql", "sh": "shell", "bash": "shell", "dash": "shell", "zsh": "shell",
    "ksh": "shell", "jq": "jq", "eval": "shell",
}  # fmt: skip
_TEXT_OPTION = re.compile(r"-[a-zA-Z]*[ceEpr]|--eval|--print")
_PATTERN_TOOLS = frozenset({"grep", "egrep", "fgrep", "rg", "ag", "pcregrep", "zgrep"})
_VALUED = "ABCmdD"  # options of grep whose value is the next word
_VALUED_BY = {"awk": {"-F": 1, "-v": 1}, "jq": {"--arg": 2, "--argjson": 2, "--indent": 1}}
_COMPARING = frozenset(
    {"diff", "cmp", "comm", "sdiff", "sha256sum", "sha1sum", "md5sum", "shasum", "sha512sum", "cksum"}
)
_SAYING = frozenset({"echo", "printf", "cat", "seq"})
_EQUAL, _UNEQUAL = frozenset({"=", "==", "-eq"}), frozenset({"!=", "-ne"})
_FAILING = re.compile(r"(?i)(?:die|abort|false|\w*fail\w*|\w*err(?:or)?s?|bad\w*|wrong|mismatch|no|bail\w*)")
_FAILING_SET = re.compile(
    r"(?i)(?:\w*fail\w*|\w*err(?:or)?s?|bad|wrong|rc|status|ret|code|exit_?code)=(?!0?$|\"\"$)"
    r"|(?:ok|pass(?:ed)?|good|success)=(?:0|false|no|\"\"|)$"
)
_WANTED = re.compile(r"(?i)(?:want|expect|golden|exp)(?:ed|s)?[\w.]*")
_FUNCTION = re.compile(r"(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\)\s*[{(]|function\s+([A-Za-z_][\w-]*)\s*\{")
_COMPARED = re.compile(r"(?:\[\[?|test)\s+(\"[^\"\n]{0,200}\"|\S+)\s+(?:=|==|!=|-eq|-ne)\s+(\S+)")
_VARIABLE = re.compile(r"\"?\$\{?(\w+)\}?\"?")


def expected_in_shell(text: str, depth: int = 0) -> list[Edit]:
    """The edits that make the expected values in shell text other ones."""
    if depth > _MOST_DEPTH:
        return []
    script = _Script(Reader(text).commands(), _functions(text), depth)
    return [*script.edits(script.commands), *_arms(text)]


@dataclass(slots=True)
class _Script:
    """The commands of a text, and the names that it compares."""

    commands: Sequence[ShellCommand]
    functions: Mapping[str, set[int]]
    depth: int
    names: set[str] = field(default_factory=set)

    def edits(self, commands: Sequence[ShellCommand], *, denied: bool = False) -> list[Edit]:
        """Those of a list of commands; ``denied`` where what it prints must not be there."""
        found: list[Edit] = []
        for at, command in enumerate(commands):
            if command.words:
                found += self.of_command(commands, at, denied=denied)
        for at, command in enumerate(commands):
            for word in command.words:
                found += self.assigned(word)
            if _is_wanted_target(command):
                found += _said(command)
            if command.document and not command.words:  # behind the end of a loop
                found += self.columns(commands, at)
            if _unwrapped_name(command) in _COMPARING and _holds(commands, at, equal=True):
                found += _handed(commands, at)
        return found

    def of_command(self, commands: Sequence[ShellCommand], at: int, *, denied: bool) -> list[Edit]:
        """Those of one command, and of what its words run."""
        command = commands[at]
        words, name = _unwrapped(command.words), _unwrapped_name(command)
        found: list[Edit] = []
        if name in ("[", "test", "[["):
            found += self.tested(words, holds=lambda equal: _holds(commands, at, equal=equal))
        elif name in _PATTERN_TOOLS:
            if not denied and _holds(commands, at, equal=True):
                patterns = (word for word in _patterns(words) if not word.runs)
                found += [edit for word in patterns for edit in moved(other_pattern(word.value, 0), word.at)]
        elif name == "((" and len(words) > 1:
            found += moved(literals.expected(f"assert({words[1].value})", "calc"), [0] * 7 + words[1].at + [0])
        elif name in _LANGUAGE_OF:
            found += self.one_liner(name, words, command)
        elif name in self.functions:
            for place in self.functions[name]:
                found += _other(words[place]) if place < len(words) else []
        for word in command.words:
            found += self.edits(word.runs, denied=_denies(words))
        for _, word in command.redirects:
            found += self.edits(word.runs)
        return found

    def tested(self, words: Sequence[ShellWord], holds: object) -> list[Edit]:
        """The literals that ``[`` compares."""
        found: list[Edit] = []
        turned = False
        for at in range(1, len(words) - 1):
            sign, left, right = words[at].value, words[at - 1], words[at + 1]
            if sign == "!" and words[at].bare:
                turned = True
            if not words[at].bare or sign not in (*_EQUAL, *_UNEQUAL, "=~"):
                continue
            equal = (sign not in _UNEQUAL) != turned
            turned = False
            if not callable(holds) or not holds(equal):
                continue
            if left.literal == right.literal:
                if not left.literal:
                    self.names |= {m[1] for w in (left, right) if (m := _VARIABLE.fullmatch(w.value))}
                continue
            value, other = (left, right) if left.literal else (right, left)
            if (
                at - 1 == 0
                or "$#" in other.value
                or (
                    value.value == "0"
                    and ("$?" in other.value or re.search(r"(?i)fail|err|bad|rc|status", other.value))
                )
            ):
                continue
            is_pattern = sign == "=~" or words[0].value == "[["
            found += (
                moved(other_pattern(value.value, 0), value.at)
                if is_pattern and not _NUMBER.fullmatch(value.value)
                else _other(value)
            )
        return found

    def one_liner(self, name: str, words: Sequence[ShellWord], command: ShellCommand) -> list[Edit]:
        """Those of the program that stands in a word, or in a here-document."""
        language = _LANGUAGE_OF[name]
        texts = list(_programs(name, language, words))
        plain = any(word.bare and not word.value.startswith("-") for word in words[1:])
        if command.document is not None and language != "awk" and (not plain or language == "sql"):
            texts.append(command.document)
        return [edit for word in texts for edit in moved(in_language(word.value, language, self.depth + 1), word.at)]

    def columns(self, commands: Sequence[ShellCommand], at: int) -> list[Edit]:
        """Those of the table that a loop reads from a here-document, in the columns whose names are compared."""
        reading = (
            each.words for each in reversed(commands[max(0, at - _NEAR) : at]) if _unwrapped_name(each) == "read"
        )
        names = [word.value for word in _unwrapped(next(reading, [])) if not word.value.startswith("-")][1:]
        wanted = {i for i, name in enumerate(names) if name in self.names or _WANTED.fullmatch(name)}
        document, found = commands[at].document, list[Edit]()
        if document is None or not wanted or len(wanted) == len(names) > 1:
            return []
        for line in re.finditer(r"[^\n]+", document.value):
            cells = list(re.finditer(r"\S+", line[0]))
            for i in wanted & {*range(len(cells))}:
                start = document.start + line.start() + cells[i].start()
                end = start + len(cells[i][0])
                found += _other(ShellWord(cells[i][0], list(range(start, end)), start, end))
        return found

    def assigned(self, word: ShellWord) -> list[Edit]:
        """The value of a variable that is compared, or called as an expected one."""
        found = _ASSIGNMENT.match(word.value)
        if not found or not word.literal or not (found[1] in self.names or _WANTED.fullmatch(found[1])):
            return []
        cut = found.end()
        if not word.value[cut:]:
            return []
        return _other(ShellWord(word.value[cut:], word.at[cut:], word.start, word.end))


def _programs(name: str, language: str, words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    """The words that are programs."""
    if language == "sql":
        yield from (word for word in words[1:] if not word.bare)
        return
    valued = _VALUED_BY.get(language, {})
    at = 1
    while at < len(words) and words[at].value.startswith("-") and len(words[at].value) > 1:
        value = words[at].value
        if language in ("awk", "jq"):
            if value in ("-f", "--from-file"):
                return
        elif _TEXT_OPTION.fullmatch(value):
            yield from words[at + 1 : at + 2]
            return
        at += 1 + valued.get(value, 0)
    if language in ("awk", "jq") or name == "eval":
        yield from words[at : at + 1]


def _patterns(words: Sequence[ShellWord]) -> list[ShellWord]:
    """The patterns that a grep looks for; none where it looks for what does not match."""
    found: list[ShellWord] = []
    given, at = False, 1
    while at < len(words):
        word, value = words[at], words[at].value
        after = words[at + 1 : at + 2]
        if value == "--" or not (value.startswith("-") and len(value) > 1):
            return found if given else [*found, *(after if value == "--" else [word])]
        if value in ("--invert-match", "--files-without-match") or (value[1] != "-" and set(value) & set("vL")):
            return []
        if value.startswith("--regexp="):
            cut = len("--regexp=")
            found.append(ShellWord(value[cut:], word.at[cut:], word.start, word.end))
        elif value == "--regexp" or (value[1] != "-" and value[-1] == "e"):
            found += after
        given |= value.startswith(("--regexp", "--file")) or (value[1] != "-" and value[-1] in "ef")
        at += 2 if value in ("--regexp", "--file") or (value[1] != "-" and value[-1] in f"ef{_VALUED}") else 1
    return found


def in_language(text: str, language: str, depth: int = 0) -> list[Edit]:
    """The edits that make the expected values of a program other ones."""
    if language == "python":
        return expected_in_python(text)
    if language == "shell":
        return expected_in_shell(text, depth)
    return literals.expected(text, language)


def _unwrapped(words: list[ShellWord]) -> list[ShellWord]:
    """Without assignments and programs that only start another one."""
    at = 0
    while at < len(words) - 1:
        value = words[at].value
        if value in _WRAPPING:
            valued, own = _WRAPPING[value]
            at += 1
            while at < len(words) - 1 and words[at].value.startswith("-"):
                at += 2 if words[at].value in valued else 1
            at += own
        elif value in _SKIPPED or (words[at].bare and _ASSIGNMENT.match(value)):
            at += 1
        else:
            break
    return words[at:]


def _unwrapped_name(command: ShellCommand) -> str:
    words = _unwrapped(command.words)
    return words[0].value.rpartition("/")[2] if words else ""


def _holds(commands: Sequence[ShellCommand], at: int, *, equal: bool) -> bool:
    """Whether a command has to end as it does for the check to pass; ``equal``: with success."""
    first, last = _pipeline(commands, at)
    equal = equal != ("!" in commands[first].keys)
    if commands[last].after == "||":
        return equal
    if commands[last].after == "&&" and last + 1 < len(commands):
        then = last + 1
        is_check = commands[then].name() in ("[", "test", "grep")
        if not is_check and _fails(commands, then, _end_of_group(commands, then)):
            return not equal
    opening = _condition(commands, first)
    if opening not in ("if", "elif"):
        return equal and not opening
    yes, no = _branches(commands, last + 1)
    failing, otherwise = _fails(commands, *yes), _fails(commands, *no)
    return (not equal if failing else equal) and not (failing and otherwise)


def _pipeline(commands: Sequence[ShellCommand], at: int) -> tuple[int, int]:
    """The first and the last command of a pipe."""
    first = last = at
    while first > max(0, at - _NEAR) and commands[first - 1].after in ("|", "|&"):
        first -= 1
    while last < min(len(commands) - 1, at + _NEAR) and commands[last].after in ("|", "|&"):
        last += 1
    return first, last


def _condition(commands: Sequence[ShellCommand], first: int) -> str:
    """The keyword whose condition a command is, or a later part of: ``if a && b; then``."""
    at = first
    while at > max(0, first - _NEAR) and commands[at - 1].after in ("&&", "||", "|") and not _opens(commands[at]):
        at -= 1
    return _opens(commands[at])


def _opens(command: ShellCommand) -> str:
    return next((key for key in command.keys if key in _OPENING), "")


def _branches(commands: Sequence[ShellCommand], at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """What runs if a condition holds, and what runs if it does not."""
    then = other = end = -1
    level = 0
    for here in range(at, min(len(commands), at + 4 * _NEAR)):
        for key in commands[here].keys:
            if key in ("if", "case"):
                level += 1
            elif key in ("fi", "esac"):
                level -= 1
                if level < 0:
                    end = here
            elif level == 0 and key == "then" and then < 0:
                then = here
            elif level == 0 and key in ("else", "elif") and other < 0:
                other = here
        if end >= 0:
            break
    end = len(commands) if end < 0 else end
    other = end if other < 0 else other
    return (max(then, at), other), (other, end)


def _end_of_group(commands: Sequence[ShellCommand], at: int) -> int:
    """Behind the braces that begin at a command, or behind the command."""
    if "{" not in commands[at].keys and "(" not in commands[at].before:
        return at + 1
    end = at
    while end < min(len(commands), at + _NEAR) and "}" not in commands[end].keys and commands[end].after != ")":
        end += 1
    return end + 1


def _fails(commands: Sequence[ShellCommand], start: int, end: int) -> bool:
    return any(map(_is_failure, commands[start : min(end, start + 100)]))


def _is_failure(command: ShellCommand) -> bool:
    words = [word.value for word in command.words]
    if not words:
        return False
    if words[0] in ("exit", "return"):
        return words[1:2] not in ([], ["0"])
    if words[0] in ("echo", "printf"):
        return any(sign.startswith(">&") and word.value == "2" for sign, word in command.redirects)
    return bool(_FAILING.fullmatch(words[0]) or _FAILING_SET.match(words[0]))


def _denies(words: Sequence[ShellWord]) -> bool:
    """Whether a test wants what its substitutions print to be empty, nothing or another text."""
    if not words or words[0].value not in ("[", "test", "[["):
        return False
    values = [word.value for word in words]
    return any(sign in values for sign in ("-z", "!=", "-ne", "-lt", "-le", "!")) or (
        values[-1 - (values[-1] in ("]", "]]"))] in ("0", "")
    )


def _other(word: ShellWord) -> list[Edit]:
    """The edit of a word that is a value."""
    if word.runs:
        return []
    if not word.value and not word.bare:
        return [Edit(word.end - 1, word.end - 1, "0")]
    if _NUMBER.fullmatch(word.value):
        signed = word.value.startswith("-")
        return moved(other_number(word.value[signed:], signed), word.at)
    return moved(other_text(word.value, 0), word.at) if word.at else []


def _said(command: ShellCommand) -> list[Edit]:
    """What a command prints that only says something: words of echo and printf, lines of a here-document."""
    name = command.name()
    if name not in _SAYING:
        return []
    if name == "cat":
        return _lines(command.document) if command.document else []
    found: list[Edit] = []
    for word in command.words[1:]:
        if not word.runs and not (word.value.startswith("-") and word.bare and not _NUMBER.fullmatch(word.value)):
            found += _other(word) if not word.value.startswith("/") else []
    return found


def _lines(document: ShellWord) -> list[Edit]:
    found: list[Edit] = []
    at = 0
    for line in document.value.splitlines(keepends=True):
        if line.strip():
            found += moved(other_text(line, at), range(document.start, document.start + at + len(line) + 1))
        at += len(line)
    return found


def _handed(commands: Sequence[ShellCommand], at: int) -> list[Edit]:
    """What a comparison of files is given as the one to be had: through a pipe, a substitution, a here-document."""
    command = commands[at]
    found = _lines(command.document) if command.document else []
    if at and commands[at - 1].after == "|":
        found += _said(commands[at - 1])
    for word in command.words:
        for inner in word.runs:
            if len(word.runs) == 1:
                found += _said(inner)
    return found


def _is_wanted_target(command: ShellCommand) -> bool:
    """Whether a command writes a file that is named as an expected one."""
    return any(
        sign in (">", ">>") and _WANTED.search(word.value.rpartition("/")[2]) for sign, word in command.redirects
    )


def _functions(text: str) -> dict[str, set[int]]:
    """By name, the arguments that functions of the text compare with something."""
    found: dict[str, set[int]] = {}
    for match in _FUNCTION.finditer(text):
        last = match.end() + _LONGEST
        end = text.find("\n}", match.end(), last)
        line = text.find("\n", match.end(), last)
        one = text.rfind("}", match.end(), line if line > 0 else last)
        body = text[match.end() : one if one > 0 else end if end > 0 else last]
        places = set[int]()
        for compared in _COMPARED.finditer(body):
            for side in compared.groups():
                if variable := _VARIABLE.fullmatch(side.rstrip(";")):
                    places |= _places(variable[1], body)
        if places:
            found[match[1] or match[2]] = places
    return found


def _places(name: str, body: str) -> set[int]:
    if name.isdigit():
        return {int(name)}
    bound = re.search(rf"\b{re.escape(name)}=\"?\$\{{?(\d)", body)
    return {int(bound[1])} if bound else set()


_CASE = re.compile(r"\bcase[ \t]+(\S{1,200}|\"[^\"\n]{0,200}\")[ \t]+in\b")
_LONGEST = 4000  # letters of a function, and between case and esac
_ARM = re.compile(r"(?:^|;;|\n)\s*\(?(?P<pattern>[^()\n;]{1,200})\)(?P<body>(?:(?!;;)[\s\S])*)")


def _arms(text: str) -> Iterator[Edit]:
    """The arms of a ``case`` in which another arm fails."""
    for case in _CASE.finditer(text):
        end = text.find("esac", case.end(), case.end() + _LONGEST)
        inside = text[case.end() : end] if end > 0 else ""
        arms = list(_ARM.finditer(inside))
        failing = [_fails(commands := Reader(arm["body"]).commands(), 0, len(commands)) for arm in arms]
        if (
            not any(failing)
            or not case[1].strip('"').startswith(("$", "`"))
            or re.fullmatch(r'"?\$\{?[\d#@*]\}?"?', case[1])
        ):
            continue
        for arm, fails in zip(arms, failing, strict=True):
            if not fails:
                yield from other_pattern(re.sub(r"[*?]", " ", arm["pattern"]), case.end() + arm.start("pattern"))
