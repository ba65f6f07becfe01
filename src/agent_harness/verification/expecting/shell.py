"""Search for expected values in shell code: operands of tests, grep patterns, input of diff and one-line programs.
The parser records the position of each letter of a word. An edit of a value can then be converted to an edit of the
code. Options of commands stay unchanged."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agent_harness.kernel.shell.reader import ShellCommand, ShellWord, read
from agent_harness.kernel.shell.wrappers import name_of, unwrapped
from agent_harness.verification.expecting import literals
from agent_harness.verification.expecting.edits import Edit, moved, other_number, other_pattern, other_text
from agent_harness.verification.expecting.python import expected_in_python

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_DEPTH = 8
_OPENING = frozenset({"if", "while", "until", "elif"})
_DECLARING = frozenset({"local", "readonly", "export", "declare"})
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
_LONGEST = 4000  # letters of a function
_GIVEN = re.compile(r"\$\{?[\d#@*]\}?")  # to the script
_VARIABLE = re.compile(r"\"?\$\{?(\w+)\}?\"?")


def expected_in_shell(text: str, depth: int = 0) -> list[Edit]:
    if depth > _MOST_DEPTH:
        return []
    script = _Script(read(text).commands, _functions(text), depth)
    return script.edits(script.commands)


@dataclass(slots=True)
class _Script:
    """Shell commands, and the names of the variables that these commands compare."""

    commands: Sequence[ShellCommand]
    functions: Mapping[str, set[int]]
    depth: int
    names: set[str] = field(default_factory=set)

    def edits(self, commands: Sequence[ShellCommand], *, denied: bool = False) -> list[Edit]:
        """Return edits of the expected values in commands. If ``denied`` is True, the commands must print nothing."""
        found: list[Edit] = []
        for at, command in enumerate(commands):
            if command.words:
                found += self.of_command(commands, at, denied=denied)
        for at, command in enumerate(commands):
            for word in command.words:
                found += self.assigned(word)
            targets = [word.text.rpartition("/")[2] for sign, word in command.redirects if sign in (">", ">>")]
            if any(map(_WANTED.search, targets)):
                found += _said(command)
            if command.document and not command.words:  # behind the end of a loop
                found += self.columns(commands, at)
            if _unwrapped_name(command) in _COMPARING and _holds(commands, at, equal=True):
                found += _handed(commands, at)
        return [*found, *_arms(commands)]

    def of_command(self, commands: Sequence[ShellCommand], at: int, *, denied: bool) -> list[Edit]:
        command = commands[at]
        words, name = _unwrapped(command.words), _unwrapped_name(command)
        found: list[Edit] = []
        if name in ("[", "test", "[["):
            found += self.tested(words, holds=lambda equal: _holds(commands, at, equal=equal))
        elif name in _PATTERN_TOOLS:
            if not denied and _holds(commands, at, equal=True):
                patterns = (word for word in _patterns(words) if not word.runs)
                found += [edit for word in patterns for edit in moved(other_pattern(word.text, 0), word.at)]
        elif name == "((" and len(words) > 1:
            found += moved(literals.expected(f"assert({words[1].text})", "calc"), [*[0] * 7, *words[1].at, 0])
        elif name in _LANGUAGE_OF:
            found += self.one_liner(name, words, command)
        elif name in self.functions:
            for place in self.functions[name]:
                found += _other(words[place]) if place < len(words) else []
        denies = _denies(words)
        for word in command.words:
            found += self.edits(word.runs, denied=denies)
        for _, word in command.redirects:
            found += self.edits(word.runs)
        return found

    def tested(self, words: Sequence[ShellWord], holds: Callable[[bool], bool]) -> list[Edit]:
        found: list[Edit] = []
        turned = False
        for at in range(1, len(words) - 1):
            sign, left, right = words[at].text, words[at - 1], words[at + 1]
            if sign == "!" and not words[at].quoted:
                turned = True
            if words[at].quoted or sign not in (*_EQUAL, *_UNEQUAL, "=~"):
                continue
            equal = (sign not in _UNEQUAL) != turned
            turned = False
            if not holds(equal):
                continue
            if left.expands == right.expands:
                if left.expands:
                    self.names |= {m[1] for w in (left, right) if (m := _VARIABLE.fullmatch(w.text))}
                continue
            value, other = (right, left) if left.expands else (left, right)
            if (
                at - 1 == 0
                or "$#" in other.text
                or (value.text == "0" and ("$?" in other.text or re.search(r"(?i)fail|err|bad|rc|status", other.text)))
            ):
                continue
            is_pattern = sign == "=~" or words[0].text == "[["
            found += (
                moved(other_pattern(value.text, 0), value.at)
                if is_pattern and not _NUMBER.fullmatch(value.text)
                else _other(value)
            )
        return found

    def one_liner(self, name: str, words: Sequence[ShellWord], command: ShellCommand) -> list[Edit]:
        """Return edits of the expected values in a program such as ``python -c TEXT``."""
        language = _LANGUAGE_OF[name]
        texts = list(_programs(name, language, words))
        plain = any(not word.quoted and not word.text.startswith("-") for word in words[1:])
        if command.document is not None and language != "awk" and (not plain or language == "sql"):
            texts.append(command.document)
        return [edit for word in texts for edit in moved(in_language(word.text, language, self.depth + 1), word.at)]

    def columns(self, commands: Sequence[ShellCommand], at: int) -> list[Edit]:
        """Return edits of the compared columns in a here-document that a shell loop reads."""
        reading = (
            each.words for each in reversed(commands[max(0, at - _NEAR) : at]) if _unwrapped_name(each) == "read"
        )
        names = [word.text for word in _unwrapped(next(reading, [])) if not word.text.startswith("-")][1:]
        wanted = {i for i, name in enumerate(names) if name in self.names or _WANTED.fullmatch(name)}
        document, found = commands[at].document, list[Edit]()
        if document is None or not wanted or len(wanted) == len(names) > 1:
            return []
        for line in re.finditer(r"[^\n]+", document.text):
            cells = list(re.finditer(r"\S+", line[0]))
            for i in wanted & {*range(len(cells))}:
                places = document.at[line.start() + cells[i].start() : line.start() + cells[i].end()]
                found += _other(ShellWord(cells[i][0], places, places[0], places[-1] + 1))
        return found

    def assigned(self, word: ShellWord) -> list[Edit]:
        """Return edits of an assigned value if the variable is compared or has a name like ``expected``."""
        found = _ASSIGNMENT.match(word.text)
        if not found or word.expands or not (found[1] in self.names or _WANTED.fullmatch(found[1])):
            return []
        cut = found.end()
        if not word.text[cut:]:
            return []
        return _other(word.behind(cut))


def _programs(name: str, language: str, words: Sequence[ShellWord]) -> Iterator[ShellWord]:
    if language == "sql":
        yield from (word for word in words[1:] if word.quoted)
        return
    valued = _VALUED_BY.get(language, {})
    at = 1
    while at < len(words) and words[at].text.startswith("-") and len(words[at].text) > 1:
        value = words[at].text
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
    """Return the patterns for which grep searches, or [] if grep selects non-matching lines."""
    found: list[ShellWord] = []
    given, at = False, 1
    while at < len(words):
        word, value = words[at], words[at].text
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
    if language == "python":
        return expected_in_python(text)
    if language == "shell":
        return expected_in_shell(text, depth)
    return literals.expected(text, language)


def _unwrapped(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    texts, at = [word.text for word in words], 0
    while at < len(texts) - 1 and (count := unwrapped(texts, at) or int(texts[at] in _DECLARING)):
        at += count
    return words[at:]


def _unwrapped_name(command: ShellCommand) -> str:
    return name_of([word.text for word in _unwrapped(command.words)[:1]])


def _holds(commands: Sequence[ShellCommand], at: int, *, equal: bool) -> bool:
    """Return True if the check requires equal values. If ``equal`` is True, the command succeeds for equal values."""
    first, last = _pipeline(commands, at)
    equal = equal != ("!" in commands[first].keys)
    if commands[last].after == "||":
        return equal
    if commands[last].after == "&&" and last + 1 < len(commands):
        then = last + 1
        is_check = commands[then].name in ("[", "test", "grep")
        if not is_check and _fails(commands, then, _end_of_group(commands, then)):
            return not equal
    opening = _condition(commands, first)
    if opening not in ("if", "elif"):
        return equal and not opening
    yes, no = _branches(commands, last + 1)
    failing, otherwise = _fails(commands, *yes), _fails(commands, *no)
    return (not equal if failing else equal) and not (failing and otherwise)


def _pipeline(commands: Sequence[ShellCommand], at: int) -> tuple[int, int]:
    first = last = at
    while first > max(0, at - _NEAR) and commands[first - 1].after in ("|", "|&"):
        first -= 1
    while last < min(len(commands) - 1, at + _NEAR) and commands[last].after in ("|", "|&"):
        last += 1
    return first, last


def _condition(commands: Sequence[ShellCommand], first: int) -> str:
    at = first
    while at > max(0, first - _NEAR) and commands[at - 1].after in ("&&", "||", "|") and not _opens(commands[at]):
        at -= 1
    return _opens(commands[at])


def _opens(command: ShellCommand) -> str:
    return next((key for key in command.keys if key in _OPENING), "")


def _branches(commands: Sequence[ShellCommand], at: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the range of commands after a true condition, and the range of commands after a false condition."""
    then = other = end = -1
    level = 0
    for here in range(at, min(len(commands), at + 4 * _NEAR)):
        for key in (*commands[here].keys, commands[here].name):
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
    if "{" not in commands[at].keys and "(" not in commands[at].before:
        return at + 1
    end = at
    while end < min(len(commands), at + _NEAR) and "}" not in commands[end].keys and commands[end].after != ")":
        end += 1
    return end + 1


def _fails(commands: Sequence[ShellCommand], start: int, end: int) -> bool:
    return any(map(_is_failure, commands[start : min(end, start + 100)]))


def _is_failure(command: ShellCommand) -> bool:
    if not command.words:
        return False
    name = command.words[0].text
    if name in ("exit", "return"):
        return [word.text for word in command.words[1:2]] not in ([], ["0"])
    if name in ("echo", "printf"):
        return any(sign.startswith(">&") and word.text == "2" for sign, word in command.redirects)
    return bool(_FAILING.fullmatch(name) or _FAILING_SET.match(name))


def _denies(words: Sequence[ShellWord]) -> bool:
    """Return True if a shell test passes for empty output, for zero or for a different value."""
    if not words or words[0].text not in ("[", "test", "[["):
        return False
    values = [word.text for word in words]
    return any(sign in values for sign in ("-z", "!=", "-ne", "-lt", "-le", "!")) or (
        values[-1 - (values[-1] in ("]", "]]"))] in ("0", "")
    )


def _other(word: ShellWord) -> list[Edit]:
    if word.runs:
        return []
    if not word.text and word.quoted:
        return [Edit(word.end - 1, word.end - 1, "0")]
    if _NUMBER.fullmatch(word.text):
        signed = word.text.startswith("-")
        return moved(other_number(word.text[signed:], signed), word.at)
    return moved(other_text(word.text, 0), word.at) if word.at else []


def _said(command: ShellCommand) -> list[Edit]:
    """Return edits of the text that a command prints, or [] if the command does more than print."""
    name = command.name
    if name not in _SAYING:
        return []
    if name == "cat":
        return _lines(command.document) if command.document else []
    found: list[Edit] = []
    for word in command.words[1:]:
        if not word.runs and not (word.text.startswith("-") and not word.quoted and not _NUMBER.fullmatch(word.text)):
            found += _other(word) if not word.text.startswith("/") else []
    return found


def _lines(document: ShellWord) -> list[Edit]:
    found: list[Edit] = []
    at = 0
    for line in document.text.splitlines(keepends=True):
        if line.strip():
            found += moved(other_text(line, at), document.at)
        at += len(line)
    return found


def _handed(commands: Sequence[ShellCommand], at: int) -> list[Edit]:
    command = commands[at]
    found = _lines(command.document) if command.document else []
    if at and commands[at - 1].after == "|":
        found += _said(commands[at - 1])
    for word in command.words:
        for inner in word.runs:
            if len(word.runs) == 1:
                found += _said(inner)
    return found


def _functions(text: str) -> dict[str, set[int]]:
    """Return the positions of the arguments that each shell function compares, by function name."""
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


def _arms(commands: Sequence[ShellCommand]) -> Iterator[Edit]:
    """Yield edits of each ``case`` pattern whose branch passes while another branch fails."""
    opened: list[tuple[ShellWord, list[int]]] = []
    for at, command in enumerate(commands):
        if command.patterns and opened:
            opened[-1][1].append(at)
        if command.name == "case" and len(command.words) > 1:
            opened.append((command.words[1], []))
        elif "esac" in command.keys and opened:
            asked, arms = opened.pop()
            failing = [_fails(commands, *ends) for ends in pairwise((*arms, at))]
            if any(failing) and asked.expands and not _GIVEN.fullmatch(asked.text):
                passing = (commands[arm] for arm, fails in zip(arms, failing, strict=True) if not fails)
                for word in (word for arm in passing for word in arm.patterns if not word.runs):
                    yield from moved(other_pattern(re.sub(r"[*?]", " ", word.text), 0), word.at)
