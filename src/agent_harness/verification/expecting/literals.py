"""Search for expected values in program text, in any supported language. Expected values are the literals with which a
check compares results. Code that the rules do not recognize stays unchanged."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from agent_harness.verification.expecting.edits import Edit
from agent_harness.verification.expecting.languages import END, LANGUAGES, NAME, NUMBER, SIGN, TEXT
from agent_harness.verification.expecting.programs import FLAGS, OPEN, ParsedProgram

_WANTED = re.compile(
    r"[$@%]*(?:(?:const|my)?_?(?:want|wants|wanted|expect|expects|expected|exp|should_?be|golden|right_?answer)"
    r"(?:_?(?:out|output|result|results|value|values|text|stdout|line|lines|sum|total|json|str|string|bytes|rows?))?)",
    re.IGNORECASE,
)
_COMPARING = re.compile(
    r"(?:deep_?|strict_?|deep_?strict_?|loose_?)?equals?|assert_?(?:equals?|same|identical|\w*_?eq)!?|assert_?equal_?\w*"
    r"|Equal(?:Values|f|Error)?|(?:Are|Is)?Equal(?:To)?|are_?equal|AreSame|Same|to_?be|to_?equal|to_?strict_?equal"
    r"|to_?contain(?:_?equal)?|to_?have_?length|to_?be_?close_?to|to_?match_?object|to_?eq|eq|eql|be_?eq|same|is|is_deeply|like_text"
    r"|must_equal|must_include|include|includes|contain|contains|Contains|InDelta|(?:ASSERT|EXPECT|CHECK|REQUIRE)_\w*EQ\w*"
    r"|ck_assert_\w*eq|TEST_ASSERT_\w*EQUAL\w*|assert_?(?:contains|string_contains_string|in_delta|json_string_equals)",
    re.IGNORECASE,
)
_ANSWERING = re.compile(
    r"deep_?equal|is_?(?:deep_?)?equal|equals?|includes?|contains|has_?(?:pre|suf)fix|(?:starts|ends)_?with|eq",
    re.IGNORECASE,
)
_TEXT_COMPARING = frozenset({"strcmp", "strncmp", "memcmp", "strcasecmp", "wcscmp"})
_STATUS = re.compile(
    r"[$@%]*\w*(?:fail|err|bad|wrong|miss|status|return_?code|exit_?code|^rc$|^ret$|exit|code|pending|skipped|diffs?)\w*",
    re.IGNORECASE,
)
_BOUND = frozenset({"=", ":=", ":", "=>"})
_ALL = range(8)
_HOLDING = frozenset({"vec!", "Some", "Ok", "Decimal", "list", "array"})
_WITHOUT_BRACKETS = (LANGUAGES["perl"], LANGUAGES["ruby"])
_TYPED = (LANGUAGES["c"], LANGUAGES["java"])
_CHOOSING = frozenset({"WHERE", "ON", "HAVING"})
_LONGEST_HEAD, _LONGEST_ROW = 60, 400  # tokens
_OF_RESULT = frozenset(
    {"include", "includes", "contain", "contains", "Contains", "eq", "equals", "equal", "same", "is", "eql"}
)


def expected(text: str, language: str) -> list[Edit]:
    program = ParsedProgram.read(text, language)
    places: set[int] = set()
    names: set[str] = set()
    for at, token in enumerate(program.tokens):
        if token.kind == SIGN or token.text in ("eq", "ne", "IS", "is"):
            _compared(program, at, places, names)
        if token.kind == NAME:
            _called(program, at, places, names)
    wanted = {name for name in names if len(name) > 1 or name.isalpha()}
    for at, token in enumerate(program.tokens):
        if token.kind == NAME and (token.text in wanted or _WANTED.fullmatch(token.text)):
            places.update(_given(program, at))
    places.update(_in_rows(program, wanted))
    return [edit for at in sorted(places) for edit in program.edits(at)]


def _compared(program: ParsedProgram, at: int, places: set[int], names: set[str]) -> None:
    """Add the positions of a comparison's literals to ``places``. If there are none, add the compared names to
    ``names``."""
    word = program.tokens[at].text
    equal = word in program.language.equal
    if (not equal and word not in program.language.unequal) or _chooses_rows(program, at):
        return
    left, right = _operand(program, at, -1), _operand(program, at, 1)
    call = _text_call(program, at - 1)
    if call >= 0:
        if program.holds(at, equal=equal):
            places.update(_arguments_of(program, call + 1, _ALL, names))
        return
    if not (left or right) or (left and right) or not program.holds(at, equal=equal):
        if not (left or right) and program.holds(at, equal=equal):
            names.update(name for step in (-1, 1) if (name := _alone(program, at, step)))
        return
    other, value = (-1, right[0]) if right else (1, left[0])
    if program.tokens[value].text == "0" and any(
        _STATUS.fullmatch(program.word(at + other * step)) for step in (1, 2, 3)
    ):
        return  # an exit status, or a count of failures: no answer of the work
    places.update((left or []) + (right or []))


def _chooses_rows(program: ParsedProgram, at: int) -> bool:
    """Return True if the comparison only selects rows in SQL."""
    begin = max(program.begin[at], at - _LONGEST_ROW)
    before = (program.word(i).upper() for i in range(begin, at) if program.parent[i] == program.parent[at])
    return program.language is LANGUAGES["sql"] and not _CHOOSING.isdisjoint(before)


def _operand(program: ParsedProgram, at: int, step: int) -> list[int]:
    """Return the positions of the literals on one side of a comparison."""
    here = at + step
    if step > 0 and program.word(here) in ("-", "+", "&"):
        here += 1
    if program.literal(here):
        far = here + step
        if step < 0 and program.word(far) in ("-",) and program.word(far - 1) in ("(", ",", "&&", "||"):
            return [here]
        ends = (
            ("+", "*", "/", "%", "<", ">", "[", ".", "-", "<<", "in")
            if step > 0
            else ("+", "*", "/", "%", "-", "<", ">", ".")
        )
        return [] if program.word(far) in ends else [here]
    if step > 0 and program.word(here) in ("[", "{"):
        return _inside(program, here)
    return []


def _alone(program: ParsedProgram, at: int, step: int) -> str:
    """Return the name that is one whole side of a comparison, or "" if there is none."""
    here = at + step
    if step > 0:
        while program.word(here + 1) in (".", "->", "::") and program.word(here):
            here += 2
        return (
            program.word(here)
            if _is_name(program, here) and program.word(here + 1) not in ("(", "[", "{", "+", "*", "%")
            else ""
        )
    return program.word(here) if _is_name(program, here) and program.word(here - 1) not in ("+", "*", "%", "/") else ""


def _is_name(program: ParsedProgram, at: int) -> bool:
    return 0 <= at < len(program.tokens) and program.tokens[at].kind == NAME and program.tokens[at].text not in FLAGS


def _text_call(program: ParsedProgram, at: int) -> int:
    """Return the position of the function name in a call such as ``strcmp(a, b)``, or -1."""
    opened = program.pair.get(at, -1) if program.word(at) == ")" else -1
    return opened - 1 if opened > 0 and program.word(opened - 1) in _TEXT_COMPARING else -1


def _called(program: ParsedProgram, at: int, places: set[int], names: set[str]) -> None:
    name, bracket = program.tokens[at].text, program.word(at + 1) == "("
    if name in _TEXT_COMPARING and bracket:
        end = program.pair.get(at + 1, at)
        turned = program.word(at - 1) == "!"
        if program.word(end + 1) not in ("==", "!=") and program.holds(at - turned, equal=turned):
            places.update(_arguments_of(program, at + 1, _ALL, names))
        return
    if name in program.language.equal:
        return
    answers = bool(_ANSWERING.fullmatch(name))
    if not (answers or _COMPARING.fullmatch(name)) or not (bracket or program.language in _WITHOUT_BRACKETS):
        return
    is_method = program.word(at - 1) in (".", "->", "::")
    if _refused(program, at) or (name in _OF_RESULT and not is_method and program.language not in _WITHOUT_BRACKETS):
        return
    if answers and bracket and not _is_assertion(program, at):
        head = _head(program, at)
        turned = program.word(head - 1) == "!"
        if not program.holds(head - turned, equal=not turned):
            return
    places.update(_arguments_of(program, at + 1 if bracket else at, _which(program, at, bracket), names))


def _head(program: ParsedProgram, at: int) -> int:
    for _ in range(_LONGEST_HEAD):
        if program.word(at - 1) not in (".", "->", "::"):
            break
        if program.word(at - 2) == ")":
            at = program.pair.get(at - 2, at - 1) - 1
        elif at > 1 and program.tokens[at - 2].kind == NAME:
            at -= 2
        else:
            break
    return at


def _is_assertion(program: ParsedProgram, at: int) -> bool:
    """Return True if the method at ``at`` belongs to an assertion, as in ``expect(x).to.include``."""
    words = [program.word(i) for i in range(max(program.begin[at], at - 12), at)]
    return any(re.match(r"(?i)assert|expect|require|should|to$|is$|t$", word) for word in words)


def _refused(program: ParsedProgram, at: int) -> bool:
    here = at
    while here > at - 8 and program.word(here - 1) in (".", "->", "::") and program.tokens[here - 2].kind == NAME:
        here -= 2
        if re.fullmatch(r"(?i)not|not_?to|to_?not|never", program.word(here)):
            return True
    return program.word(at - 1) in ("not_to", "to_not", "not", "fn", "func", "function", "sub", "def")


def _which(program: ParsedProgram, at: int, bracket: bool) -> range:
    """Return the indexes of the arguments that an assertion compares."""
    first = program.word(at + 2 if bracket else at + 1)
    name = program.tokens[at].text
    if re.fullmatch(r"(?i)to_?\w+|must_\w+|is_?equal_?to|equal_?to", name) or (
        program.word(at - 1) == "." and program.word(at - 2) in ("to", "be", "is", "Is", ")")
    ):
        return range(1)
    if name in ("include", "includes", "contain", "contains", "eq", "eql", "equal", "equals") and (
        program.word(at - 1) != "." or program.word(at - 2) in ("be", "to", "should")
    ):
        return range(1)
    return range(1, 3) if first in ("t", "tb", "b") and program.word(at + 3 if bracket else at + 2) == "," else range(2)


def _arguments_of(program: ParsedProgram, at: int, which: range, names: set[str]) -> list[int]:
    """Return the positions of the literals in the arguments ``which``. Add each plain name among these arguments to
    ``names``."""
    groups = _split(program, at)
    if which == range(2) and len(groups) == 3 and program.language is LANGUAGES["java"]:
        is_text = len(groups[0]) == 1 and program.tokens[groups[0][0]].kind == TEXT
        which = range(1, 2) if is_text else which  # a message in front, or the first value
    found: list[int] = []
    for number, group in enumerate(groups):
        if number in which:
            if len(group) == 1 and _is_name(program, group[0]):
                names.add(program.word(group[0]))
            elif len(group) == 3 and program.word(group[1]) in (".", "->") and _is_name(program, group[2]):
                names.add(program.word(group[2]))
            elif table := _table(program, group):
                names.add(table)
            found += _plain(program, group)
    return found


def _table(program: ParsedProgram, group: Sequence[int]) -> str:
    whole = len(group) > 2 and program.word(group[1]) == "[" and program.pair.get(group[1]) == group[-1]
    return program.word(group[0]) if whole and _is_name(program, group[0]) else ""


def _split(program: ParsedProgram, at: int) -> list[list[int]]:
    """Return the token positions of each item in a bracketed list or argument list."""
    bracket = program.word(at) in OPEN
    end = min(program.pair.get(at, at) if bracket else len(program.tokens), at + _LONGEST_ROW)
    groups: list[list[int]] = [[]]
    here = at + 1
    while here < end:
        word = program.word(here)
        if not bracket and (program.tokens[here].kind == END or word in (";", "}", ")", "do", "or", "if", "unless")):
            break
        if word == ",":
            groups.append([])
        elif program.tokens[here].kind != END:
            groups[-1].append(here)
            if word in OPEN:
                close = program.pair.get(here, here)
                groups[-1] += range(here + 1, close + 1)
                here = close
        here += 1
    return groups


def _plain(program: ParsedProgram, group: Sequence[int]) -> list[int]:
    """Return the positions of the literals in an argument, or [] if the argument contains other code."""
    rest = [at for at in group if program.word(at) not in ("-", "&", "*", "ref", "\\")]
    if len(rest) == 1 and program.literal(rest[0]):
        return rest
    for opened in rest[: rest.index(rest[0]) + _LONGEST_HEAD] if rest else ():
        word = program.word(opened)
        if word in OPEN and program.pair.get(opened) == rest[-1]:
            before = program.word(opened - 1) if opened != rest[0] else ""
            held = word == "{" or opened == rest[0] or before in _HOLDING or (word == "[" and before == "]")
            return _inside(program, opened) if held else _made(program, rest, opened)
        if word == "(":
            break
    return _made(program, rest, -1)


def _made(program: ParsedProgram, rest: Sequence[int], opened: int) -> list[int]:
    """Return the literal's position in ``"text".to_string()`` or ``String::from("text")``, or an empty list."""
    if len(rest) == 5 and program.literal(rest[0]) and program.word(rest[1]) == ".":
        return [rest[0]]
    if len(rest) > 3 and program.word(rest[1]) == "::" and opened == rest[-3] and program.literal(rest[-2]):
        return [rest[-2]]
    return []


def _inside(program: ParsedProgram, opened: int) -> list[int]:
    """Return the positions of literals between two brackets, without keys and call arguments."""
    found: list[int] = []
    at, end = opened + 1, program.pair.get(opened, opened)
    while at < end:
        word = program.word(at)
        if word == "(" and program.tokens[at - 1].kind == NAME:
            at = program.pair.get(at, at)
        elif program.literal(at) and program.word(at + 1) not in (":", "=>", "*", "+", "/", "."):
            found.append(at)
        at += 1
    return found


def _given(program: ParsedProgram, at: int) -> list[int]:
    """Return the positions of the literals in a value that is assigned."""
    bound = at + 1
    while program.word(bound) in ("[", "]") and bound < at + 4:
        bound += 1  # char want[] = "..."
    if (
        program.word(bound) == ":"
        and program.tokens[bound + 1 : bound + 2]
        and program.tokens[bound + 1].kind == NAME
        and program.word(bound + 2) == "="
    ):
        bound += 2
    if program.word(bound) not in _BOUND:
        return []
    value = bound + 1
    while value < len(program.tokens) and program.tokens[value].kind == END:
        value += 1
    if program.word(value) == "range":
        return _of_collection(program, value)
    if program.word(value) in ("-", "&"):
        value += 1
    group: list[int] = []
    while value < len(program.tokens) and len(group) < 400:
        word = program.word(value)
        if word in (",", ";", ")", "}", "]") or program.tokens[value].kind == END:
            break
        close = program.pair.get(value, value) if word in OPEN else value
        group += range(value, close + 1)
        value = close + 1
    return _plain(program, group)


def _of_collection(program: ParsedProgram, at: int) -> list[int]:
    for here in range(at, min(at + _LONGEST_HEAD, len(program.tokens))):
        if program.word(here) == "{" and program.word(here - 1) not in ("struct", "interface"):
            return _inside(program, here)
        if program.tokens[here].kind == END:
            break
    return []


def _in_rows(program: ParsedProgram, names: set[str]) -> Iterator[int]:
    """Yield the positions of expected literals in table rows and calls."""
    heads: dict[int, set[int]] = {}
    functions: dict[str, set[int]] = {}
    for at, end in program.pair.items():
        if 0 < end - at <= _LONGEST_HEAD and program.word(at) in OPEN:
            columns = _names_of(program, at)
            wanted = {i for i, name in enumerate(columns) if name in names or _WANTED.fullmatch(name)}
            if len(columns) > 1 and wanted and (len(wanted) < len(columns) or program.word(at) == "("):
                heads.setdefault(len(columns), set()).update(wanted)
                functions.setdefault(_defined(program, at), set()).update(wanted)
    for at in program.pair if heads else ():
        if program.word(at) in OPEN:
            yield from _cells(program, at, heads, functions)
    for at in range(len(program.tokens) if functions else 0):
        if program.word(at).upper() == "SELECT" and program.word(at - 2).upper() == "INTO":
            yield from _selected(program, at, functions.get(program.word(at - 1), set()))


def _selected(program: ParsedProgram, at: int, wanted: Collection[int]) -> Iterator[int]:
    """Yield the positions of the literals that SQL code inserts into the columns with the indexes ``wanted``."""
    for i, group in enumerate(_split(program, at)):
        end = next((place for place, each in enumerate(group) if program.word(each).upper() == "FROM"), len(group))
        if i in wanted:
            yield from _plain(program, group[:end])


def _cells(
    program: ParsedProgram, at: int, heads: Mapping[int, set[int]], functions: Mapping[str, set[int]]
) -> list[int]:
    before = program.tokens[at - 1] if at else None
    groups = _split(program, at)
    if program.word(at) == "(" and _is_name(program, at - 1):
        wanted = functions.get(program.word(at - 1), set())
    elif before is not None and (before.kind == END or before.text in ("[", "{", ",", "(")):
        wanted = heads.get(len([group for group in groups if group]), set())
    else:
        return []
    return [each for i in sorted(wanted) if i < len(groups) for each in _plain(program, groups[i])]


def _defined(program: ParsedProgram, at: int) -> str:
    if program.word(at - 1) == "my":
        opened = program.parent[at]
        return program.word(opened - 1) if opened > 1 and program.word(opened - 2) == "sub" else ""
    here = at - 2 if program.word(at - 1) == "=" else at - 1
    return program.word(here) if program.word(at) == "(" and _is_name(program, here) else ""


def _names_of(program: ParsedProgram, at: int) -> list[str]:
    """Return the names between two brackets, such as parameters, without their types."""
    end = program.pair[at]
    columns: list[str] = []
    fresh = True
    for here in range(at + 1, end):
        token, word = program.tokens[here], program.word(here)
        if token.kind in (TEXT, NUMBER):
            return []
        if word in (",", ";") or token.kind == END:
            fresh = True
        elif token.kind == NAME and fresh:
            columns.append(word)
            fresh = False
        elif token.kind == NAME and program.language in _TYPED and program.word(here + 1) in (",", ";", ")", ""):
            columns[-1] = word  # behind its type
    return columns
