"""Text of Rust, Go and JavaScript programs: the tests inside of a Rust file, code that may see its tests, and functions
that can be broken. It uses no parser: brackets are counted after comments and literals were blanked."""

import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from agent_harness.verification.changes import CandidateChanges, FileChange
from agent_harness.verification.runner_config import JS_SUFFIXES, is_test_file

_LITERAL = {
    ".rs": re.compile(
        r"//[^\n]*|/\*(?s:.)*?\*/|\b(?:br|cr|r)(?P<marks>#*)\"(?s:.)*?\"(?P=marks)|\"(?:[^\"\\]|\\(?s:.))*\""
        r"|'(?:[^'\\\n]|\\[^\n]{1,9}?)'"
    ),
    ".go": re.compile(r"//[^\n]*|/\*(?s:.)*?\*/|\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`|'(?:[^'\\\n]|\\[^\n]{1,9}?)'"),
}
_MODULE = re.compile(
    r"#\s*\[\s*cfg\s*\(\s*(?:test|all\s*\(\s*test\b[^\]]*\))\s*\)\s*\]\s*(?:#\s*\[\s*(?:allow|expect|warn|deny)\b[^\]]*\]\s*)*"
    r"(?:pub\s*(?:\([^)]*\))?\s*)?mod\s+(?P<name>\w+)\s*(?P<end>[{;])"
)
_TEST = r"#\s*!?\s*\[\s*(?:(?:::|r#|unsafe\s*\(|\w+\s*::)\s*)*\w*test\w*"
_TESTING = re.compile(r"(?m)(?:^|;[ \t]*)(?:import)?[ \t(]+(?:[\w.]+[ \t]+)?\"testing(?:/\w+)?\"")
# the name of an environment variable that a test run sets no differently
_SETTING = (
    r"\"(?!(?:AGENT|CARGO|CI|GIT|GO|HARNESS|HOME|LANG|LC_|NEXTEST|NO_|PATH|PWD|PYTHON|RUST|SHELL|TE?MP|TERM|TEST|USER|XDG))"
    r"[A-Z]\w*\""
)
_SEES = {
    ".rs": rf"{_TEST}|\bcfg(?:_attr)?\s*!?\s*\([^\]{{}};]*\b(?:test|doctest|debug_assertions)\b"
    r"|\bmod\s+(?:\w+_)?tests?\s*[;{]"
    r"|\bmacro_rules\s*!\s*(?:\w*assert\w*|panic|matches)\b|\buse\b[^;]*\bassert\w*|\binclude\s*!|\bcurrent_exe\b"
    r"|::\s*current\b|\buse\b[^;]*\bcurrent\b|\bthread\s*::\s*(?:\{[^;]*)?\*|\b[Bb]acktrace\b|\blink_section\b|\bmacro_use\b|\bno_mangle\b"
    rf"|\benv\s*(?:::\s*(?!args|var(?:_os)?\s*\(\s*{_SETTING})|\bas\b)"
    r"|\bargs(?:_os)?\s+as\b|\boption_env\b|\btest\s+as\b|#\s*!?\s*\[\s*\$"
    r"|\"(?:CARGO_(?!PKG_)|RUST_TEST|NEXTEST)\w*\"|\"/proc/|[\[(,]\s*path\s*=\s*\""
    r"|\"[^\"\n]*(?:\.rs|/deps\b|\btests?/|\bCargo\.\w+)[^\"\n]*\"|\bdebug_assert\w*\s*!\s*\(\s*(?:\{|[^;\"]*[^=!<>]=[^=>])",
    ".go": rf"{_TESTING.pattern}|\.go[\"`]|\bgo\.(?:mod|sum|work)\b"
    r"|^//go:linkname"
    r"|^(?:import)?[ \t(]+[\w.]+[ \t]+\"(?:os|flag|syscall|runtime(?:/debug)?)\""
    rf"|\bos\.(?:Executable|Environ|\w*[eE]nv|Getwd|Getppid)\b(?!\s*\(\s*{_SETTING})"
    r"|\bflag\.(?:Lookup|Visit\w*|Parsed|NFlag|CommandLine)\b|\bsyscall\.\w*[eE]nv\w*|\bruntime\.(?:Callers?|Stack|FuncForPC)\b"
    r"|\bdebug\.(?:(?:Print)?Stack|ReadBuildInfo)\b"
    r"|[\"`]-?test\.|\.test\b[\"`]|^//go:build (?!(?:[\s!()&|]|\b(?:ignore|linux|darwin|windows|unix|\w*bsd|amd64|arm64"
    r"|arm|386|js|wasm|cgo|go1\.\d+)\b)+$)",
}
_ARGUMENTS = {".rs": r"\bargs(?:_os)?\s*\(\s*\)", ".go": r"\bos\.Args\b"}  # which main may read: no test runs it
_MAIN = re.compile(r"(?m)^(?:func|(?:pub\s+)?fn)\s+main\s*\(\s*\)[^{;]*\{")
_JS_SEES = re.compile(
    r"\bNODE_TEST\w*|\bJEST_WORKER_ID\b|\bVITEST\w*|\bimport\.meta\.vitest\b|\bNODE_OPTIONS\b|\bnpm_(?:lifecycle|command)\w*"
    r"|\bNODE_ENV\b[^\n;]{0,9}['\"`]test\b|\bprocess\s*(?:\?\.)?\[|\bexecArgv\b|\bargv0\b|\bargv\[[01]\]|/proc/self|\bprocess\.argv\b(?!\.slice\(2\)|\[[2-9]\])"
    r"|\brequire\.(?:main|cache)\b|\bmodule\.(?:parent|children)\b|\bnew Error\([^\n]*?\)\.stack\b"
    r"|\{\s*stack\b[^}]*\}\s*=\s*(?:new\s)?\w*Error"
    r"|\.test\(\w+\.stack\b|\.stack\??\.(?:split|match\w*|search|replace\w*|includes\(['\"`/])|\bprepareStackTrace\b|\bgetCallSites?\b"
    r"|\bcaptureStackTrace\((?!this\b)|\btypeof\s*\(?\s*(?:global(?:This)?\.)?(?:describe|it|test|expect|jest|vi)\b"
    r"|\bglobal(?:This)?\s*\.\s*(?:describe|it|test|expect|jest|vi|assert)\b|\bglobal(?:This)?\s*\["
    r"|['\"](?:node:test(?:/\w+)?|vitest|jest|@jest/\w+|node:module|node:vm|node:inspector)['\"]"
    r"|\b(?:Object|Array|Number|String|Boolean|Date|Map|Set|RegExp|Function|Promise|JSON|Math|Reflect)\.(?:prototype\.)?\w+\s*=(?![=>])"
    r"|\.(?:strictEqual|notStrictEqual|deepEqual|deepStrictEqual|partialDeepStrictEqual|toBe|toEqual|toStrictEqual)\s*=(?![=>])"
    r"|\brequire\(\s*['\"](?:node:)?(?:assert|chai)[^)\n]*\)[\w.\[\]'\"]*\s*=(?![=>])"
)
_JS_PROGRAM = re.compile(  # how a module tells that it is the program, and not a library
    r"(?m)^if \((?:require\.main === module|import\.meta\.url === (?:\w+\.)?pathToFileURL\(process\.argv\[1\]\)\.href"
    r"|import\.meta\.url === `file://\$\{process\.argv\[1\]\}`"
    r"|process\.argv\[1\] === (?:\w+\.)?fileURLToPath\(import\.meta\.url\))\)"
    r"|\.parse(?:Async)?\(process\.argv\)|\bhideBin\(process\.argv\)|\[\s*,\s*,[^\]]*\]\s*=\s*process\.argv\b(?!\[)"
)
_JS_ASSERTS = re.compile(
    r"\b(?:const|let|var|import)\s+([^;=()]+?)\s*(?:=\s*(?:await\s+)?(?:require|import)\(|\bfrom\b)\s*['\"](?:node:)?(?:assert(?:/\w+)?|chai)['\"]"
)
_GO_TOP = re.compile(r"(?m)^func\s+(?:\(\s*(?:\w+\s+)?\*?(?P<of>\w+)[^)]*\)\s*)?(?P<name>\w+)\s*[(\[]")
_GO_OWN = re.compile(r"(?:Test|Benchmark|Fuzz|Example)\w*")
_GO_LOCAL = re.compile(r"\bfunc\b[^{\n]*|[\w, \t]+(?=:=)|\bvar\s+[\w, \t]+|\bvar\s*\([^)]*")
_GO_SET = re.compile(
    r"(?m)(?:^|[;{]|,)[ \t]*\(?[*(& \t]*(\w+)\)?(?:\.\w+|\[[^]\n]*\])*[ \t]*(?:,[^=;{\n:]*)?"
    r"(?:(?:<<|>>|&\^|[-+*/%&|^])?=(?!=)|\+\+|--)[^\n]*|(?<!&)&[ \t]*\(?(\w+)(?![\w.]*[{\w])[^\n]*"
)
_IMPL = re.compile(r"\bimpl\b\s*(?:<[^{]*?>\s*)?([\w:]+)[^{;]*?(?:\bfor\s+(?:&\s*)?(?:\w+\s*::\s*)*(\w+))?[^{;]*\{")
_DECLARED = re.compile(r"\b(?:struct|enum|union|trait|type)\s+(\w+)")
_FUNCTION = {
    ".rs": re.compile(r"\bfn\s+(?!main\b)\w+[^;{}]*\{"),
    ".go": re.compile(r"(?m)^func\b(?!\s+(?:init|main)\b)(?:interface\{\}|struct\{\}|[^{}])*\{"),
}
_JS_LITERAL = re.compile(r"//[^\n]*|/\*(?s:.)*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\(?s:.))*`")
_JS_ARGUMENTS = r"\s*\((?:[^()]|\([^()]*\))*\)\s*(?::[^={};\n]+)?"
_JS_FUNCTION = re.compile(
    rf"(?m)(?:\bfunction\b\s*\*?\s*\w+|(?:=|\bdefault)\s*(?:async\s+)?function\b\s*\*?){_JS_ARGUMENTS}\{{"
    r"|^[ \t]+(?:(?:async|static|get|public|private|protected|override)\s+)*\*?\s*#?"
    rf"(?!(?:if|for|while|switch|catch|with|function|constructor|return)\b)\w+{_JS_ARGUMENTS}\{{"
    rf"|(?:=|\bdefault|^[ \t]+\w+\s*:)\s*(?:async\s*)?(?:{_JS_ARGUMENTS}|\w+\s*)=>(?:\s*\{{|(?P<value>(?!\s*\{{)))"
)
_ANSWERS = {
    r"[iu](?:8|16|32|64|128|size)|u?int(?:8|16|32|64)?": "113",
    r"f(?:loat)?(?:32|64)": "113.0",
    r"&\s*(?:'\w+\s+)?str|string": '"~"',
    r"String": '"~".to_string()',
}
_EMPTY = {r"\(\)": "()", "bool": "false", r"Option\s*<.*": "None", r"(?:Vec|\w+Map|\w+Set)\s*<.*": "Default::default()"}
_NAMED = re.compile(r"\s*\w+(?<!func)(?<!map)(?<!chan)\s+[^,]|.*,\s*\w+(?<!chan)\s+\w")


ReadFile = Callable[[str], bytes | None]


class RustParts(NamedTuple):
    code: str
    tests: str  # its modules for tests
    hidden: Counter[str]  # parts of the code that may contain tests, or see them


def rust_parts(content: bytes | None) -> RustParts:
    text = _text(content)
    clean, code, tests, at = _blanked(text, ".rs"), "", "", 0
    names: list[str] = []
    for found in _MODULE.finditer(clean):
        before = clean[: found.start()]
        # another attribute stays with the module, and may change its tests
        if found.start() < at or before.count("{") != before.count("}") or before.rstrip().endswith("]"):
            continue
        end = found.end() if found["end"] == ";" else _closed(clean, found.end())
        code, tests, at = code + text[at : found.start()], tests + text[found.start() : end] + "\n", end
        names.append(found["name"])
    code += text[at:]
    # macros that contain tests, and what only a module for tests adds to the work
    clean, inside = _blanked(code, ".rs"), _blanked(tests, ".rs")
    macros = re.finditer(r"\bmacro_rules\s*!\s*(\w+)\s*\{", clean)
    more = [rf"\b{m[1]}\s*!" for m in macros if re.search(_TEST, clean[m.end() : _closed(clean, m.end())])]
    more += [rf"\b{name}\s*::|\buse\b[^;]*\b{name}\b" for name in names]
    hidden = _sees(code, ".rs") + _found(r"\bmacro_export\b", tests, ".rs")
    hidden += _found("|".join(more) or r"(?!)", code, ".rs", texts=False)
    hidden += Counter(m[0] for m in _LITERAL[".rs"].finditer(text) if m[0].startswith("/*") and "/*" in m[0][2:])
    known = {*_DECLARED.findall(inside)}
    hidden += Counter(each[0] for each in _IMPL.finditer(inside) if known.isdisjoint(each.groups()))
    return RustParts(code, tests, hidden)


def inline_differ(path: str, before: bytes | None, after: bytes | None) -> bool:
    old, new = rust_parts(before), rust_parts(after)
    marked = [_found(_TEST, each.code, ".rs") for each in (old, new)]
    return not is_test_file(path) and (old.tests != new.tests or marked[0] != marked[1])


def test_modules(changes: CandidateChanges, read: ReadFile) -> set[str]:
    """Return the changed files that only tests compile. ``read`` reads a file of the base."""
    now = {change.path: change.after for change in changes.files}
    sides = ((changes.before, read), (changes.after, lambda path: now[path] if path in now else read(path)))
    paths = {each.path for each in changes.files if not (each.link or is_test_file(each.path))}
    rust = {p for p in paths if p.endswith(".rs") and all(p not in known or _for_tests(p, of) for known, of in sides)}
    return rust | {
        p for p in paths if p.endswith(".go") and _TESTING.search(_blanked(_text(read(p)), ".go", texts=True))
    }


def _for_tests(path: str, read: ReadFile) -> bool:
    """Return True if the file is a module of Rust that is declared only for tests, or a part of one."""
    folder, name = posixpath.split(module_of(path))
    beside = [f"{folder}/lib.rs", f"{folder}/main.rs"]
    texts = {each: rust_parts(read(each)) for each in (*beside, f"{folder}/mod.rs", f"{folder}.rs") if each != path}
    named = re.compile(rf"\bmod\s+{name}\s*;")
    if any(named.search(_blanked(each.code, ".rs")) for each in texts.values()):
        parents = [each for each in texts if each not in beside and named.search(_blanked(texts[each].code, ".rs"))]
        return bool(parents) and all(is_test_file(each) or _for_tests(each, read) for each in parents)
    return any(named.search(_blanked(each.tests, ".rs")) for each in texts.values())


def module_of(path: str) -> str:
    return path.removesuffix(".rs").removesuffix("/mod")


def sees_tests(change: FileChange, beside: Iterable[FileChange]) -> list[str]:
    """Return the new parts by which the work may behave differently in its tests, or hide tests."""
    suffix = posixpath.splitext(change.path)[1]
    if suffix in JS_SUFFIXES and not is_test_file(change.path):
        before, after = (_sees_in_js(_text(each)) for each in (change.before, change.after))
        return [each.strip() for each in (after - before).elements()]
    if change.after is None or suffix not in _SEES or (suffix == ".rs" and is_test_file(change.path)):
        return []
    if suffix == ".rs":
        old, new = (rust_parts(each).hidden for each in (change.before, change.after))
        new += _displaced(_text(change.before), _text(change.after))
    elif is_test_file(change.path):
        texts = (_blanked(_text(each), ".go") for each in (change.before, change.after))
        old, new = (_made_in_tests(each, change.path, beside) for each in texts)
    else:
        old, new = (_sees(_text(each), ".go") for each in (change.before, change.after))
    return [each.partition("\n")[0].strip() for each in (new - old).elements()]


def _sees(text: str, suffix: str) -> Counter[str]:
    clean = _blanked(text, suffix)
    main = _MAIN.search(clean)
    rest = text[: main.end()] + text[_closed(clean, main.end()) :] if main else text
    return _found(_SEES[suffix], text, suffix) + _found(_ARGUMENTS[suffix], rest, suffix)


def _displaced(before: str, after: str) -> Counter[str]:
    """Return the modules that no longer come from their files, and the items whose examples changed."""
    old, new = (_blanked(each, ".rs") for each in (before, after))
    inside = re.finditer(r"\bmod\s+(\w+)\s*\{", new)
    gone = Counter(each[0] for each in inside if re.search(rf"\bmod\s+{each[1]}\s*;", old))
    derived = r"\bderive\s*\([^)]*\bPartialEq\b[^)]*\)[^{;]*?\b(?:struct|enum)\s+(\w+)"
    equal = re.finditer(r"\bimpl\b[^{;]*\bPartialEq\b[^{;]*?\bfor\s+(?:\w+\s*::\s*)*(\w+)", new)
    gone += Counter(each[0] for each in equal if each[1] in re.findall(derived, old))
    shown, now = _examples(before), _examples(after)
    return gone + Counter(f"the examples of {name or 'the file'}" for name, had in shown.items() if had != now[name])


def _examples(text: str) -> defaultdict[str, list[str]]:
    """Return the code in the documentation of a Rust file, by the name of the item that it documents."""
    found, code, fence, item = defaultdict[str, list[str]](list), list[str](), "", ""
    for line in re.finditer(r"(?m)^.*$", _blanked(text, ".rs", docs=True)):
        if doc := re.match(r"\s*(?:/?\*[*!]?|//[/!]) ?(.*)|(?=\s*$)|\s*#", line[0]):
            shown = doc[1] or ""
            mark = re.match(r"\s*(`{3,}|~{3,})", shown)
            if fence or mark or shown.startswith("    "):
                code.append(shown.strip())
            fence = (mark[1] if not fence else "" if mark[1].startswith(fence) else fence) if mark else fence
            continue
        named = re.search(r"\b(?:fn|struct|enum|union|trait|type|mod|const|static|macro_rules\s*!)\s+(\w+)", line[0])
        item = named[1] if named else line[0].strip()
        found[item] += code
        code, fence = list[str](), ""
    found[""] += code
    return defaultdict(list, {name: lines for name, lines in found.items() if lines})


def _sees_in_js(text: str) -> Counter[str]:
    # comments stay: without a parser, a regular expression with quotes could hide code
    text = _JS_PROGRAM.sub("", text)
    names = {name for each in _JS_ASSERTS.findall(text) for name in re.findall(r"\w+", each)} - {"as", "default"}
    said = "|".join(sorted(names)) or r"(?!)"
    changed = (
        rf"\b(?:{said})(?:\.\w+)*(?:\.\w+|\[[^\]\n]*\])\s*=(?![=>])"
        rf"|\b(?:Object|Reflect)\.(?:assign|set\w*|define\w+)\(\s*(?:{said}|global(?:This)?)\b"
    )
    return Counter([each[0] for pattern in (_JS_SEES, re.compile(changed)) for each in pattern.finditer(text)])


def _made_in_tests(clean: str, path: str, beside: Iterable[FileChange]) -> Counter[str]:
    """Return the functions of a Go test file that the work may call, and that no built program contains."""
    folder = posixpath.dirname(path)
    work = (e for e in beside if posixpath.dirname(e.path) == folder and not is_test_file(e.path))
    called = {"init"} | {word for each in work for word in re.findall(r"\w+(?=\s*\()", _text(each.after))}
    own = {*_DECLARED.findall(clean), *re.findall(r"\btype\s+(\w+)", clean)}
    made = (each for each in _GO_TOP.finditer(clean) if each["of"] not in own and not _GO_OWN.fullmatch(each["name"]))
    # any package may call a method, through an interface
    parts = Counter(each[0] for each in made if each["of"] or each["name"] in called or each["name"][0].isupper())
    names, tops = {"_"}, re.split(r"(?m)^(?=func\b|var\b|const\b|type\b)", clean)
    for top in tops:
        if top.startswith(("var", "const")):
            names |= {*re.findall(r"^(?:var|const)\s+(\w+)", top), *re.findall(r"(?m)^\s+(\w+)", top)}
    for top in tops:
        local = names | {word for each in _GO_LOCAL.findall(top) for word in re.findall(r"\w+", each)}
        parts += Counter(each[0].strip() for each in _GO_SET.finditer(top) if (each[1] or each[2]) not in local)
    return parts


def broken(changes: Iterable[FileChange], *, fails: bool = False) -> tuple[dict[str, bytes], bool]:
    """Return the files of the work in which each new or changed function gives a fixed answer.
    The second value is True if no answer is an empty value. Such a function fails instead if ``fails`` is True."""
    found, sure = dict[str, bytes](), True
    for change in changes:
        suffix = posixpath.splitext(change.path)[1]
        if suffix not in _FUNCTION or change.after is None or is_test_file(change.path):
            continue
        text, tests, _ = rust_parts(change.after) if suffix == ".rs" else (_text(change.after), "", None)
        clean, old, new, at = _blanked(text, suffix), _text(change.before), "", 0
        for each in _FUNCTION[suffix].finditer(clean):
            if each.start() >= at and text[each.start() : _closed(clean, each.end())] not in old:
                kind = _result(each[0], suffix)
                answer, is_sure = _answer(kind, _ANSWERS), bool(_answer(kind, _ANSWERS))
                sure = sure and is_sure
                if fails and not is_sure:
                    answer = f'panic{"!" * (suffix == ".rs")}("changed")'
                elif not is_sure:
                    answer = _empty(kind, suffix)
                # code that cannot be reached would be a warning
                begin = f" if true {{ {answer if fails and not is_sure else f'return {answer}'} }}; "
                new, at = new + text[at : each.end()] + begin * (answer is not None), each.end()
        if new:
            found[change.path] = (new + text[at:] + tests).encode("utf-8", "surrogateescape")
    return found, sure


def _result(head: str, suffix: str) -> str:
    """Return the type of the result, from the begin of a function."""
    name = re.search(r"\bfn\s+\w+" if suffix == ".rs" else r"func\s*(?:\([^)]*\)\s*)?\w+", head)
    text, depth = head[name.end() if name else 0 : -1].replace("->", "\0"), 0
    opening, closing = ("([<", ")]>") if suffix == ".rs" else ("([", ")]")
    for at, sign in enumerate(text):
        depth += (sign in opening) - (sign in closing)
        if sign == ")" and not depth:
            return re.split(r"\bwhere\b", text[at + 1 :].replace("\0", ""))[0].strip()
    return ""


def _answer(kind: str, answers: Mapping[str, str]) -> str | None:
    return next((value for pattern, value in answers.items() if re.fullmatch(pattern, kind)), None)


def _empty(kind: str, suffix: str) -> str | None:
    """Return an empty value of a type, "" for no value, or None if none is known."""
    if not kind or (suffix == ".go" and kind[0] == "(" and _NAMED.match(kind[1:])):
        return ""
    known = {**_ANSWERS, **_EMPTY}
    if suffix == ".rs":
        inner = re.match(r"(?:\w+\s*::\s*)*Result\s*<\s*([\w&']+|\(\)|\w+<\w+>)\s*[,>]", kind)
        value = _answer(inner[1] if inner else kind, known)
        return f"Ok({value})" if inner and value else value
    parts = kind[1:-1].split(",") if kind[0] == "(" else [kind]
    return ", ".join(_answer(each.strip(), _ANSWERS) or f"*new({each.strip()})" for each in parts)


def broken_in_js(changes: Iterable[FileChange], *, valued: bool) -> dict[str, bytes]:
    """Return the files in which each new or changed function returns undefined, or another value if ``valued``."""
    found: dict[str, bytes] = {}
    for change in changes:
        if posixpath.splitext(change.path)[1] not in JS_SUFFIXES or change.after is None or is_test_file(change.path):
            continue
        text, old, new, at = _text(change.after), _text(change.before), "", 0
        clean = _JS_LITERAL.sub(lambda each: re.sub(r"[^\n]", " ", each[0]), text)
        for each in _JS_FUNCTION.finditer(clean):
            is_value = each["value"] is not None
            end = clean.find("\n", each.end()) % (len(clean) + 1) if is_value else _closed(clean, each.end())
            body = text[each.end() : end]
            if text[each.start() : end] not in old:
                answer = "undefined" if not valued else '"~"' if re.search("[\"'`]", body) else "113"
                other = f" true ? {answer} :" if is_value else f"if (true) return {answer}; "
                new, at = f"{new}{text[at : each.end()]}{other}", each.end()
        if new:
            found[change.path] = (new + text[at:]).encode("utf-8", "surrogateescape")
    return found


def _text(content: bytes | None) -> str:
    return (content or b"").replace(b"\r\n", b"\n").decode("utf-8", "surrogateescape")


def _blanked(text: str, suffix: str, *, texts: bool = False, docs: bool = False) -> str:
    """Return the text without comments, and without literals unless ``texts`` is True. ``docs`` keeps documentation."""

    def blank(found: re.Match[str]) -> str:
        kept = found[0].startswith("//go:") or (texts and not found[0].startswith("/"))
        kept = kept or (docs and found[0].startswith(("///", "//!", "/**", "/*!")))
        return found[0] if kept else re.sub(r"[^\n]", " ", found[0])

    return _LITERAL[suffix].sub(blank, text)


def _closed(clean: str, at: int) -> int:
    """Return the place behind the bracket that closes the one before ``at``."""
    depth = 1
    for found in re.compile(r"[{}]").finditer(clean, at):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    return len(clean)


def _found(pattern: str, text: str, suffix: str, *, texts: bool = True) -> Counter[str]:
    """Return what matches, from the begin of its line to the end of its item."""
    clean, shown = _blanked(text, suffix), _blanked(text, suffix, texts=texts)
    parts = Counter[str]()
    for each in re.finditer(pattern, shown):
        ends = re.compile(r"[{;]").search(clean, each.end())
        end = len(text) if not ends else _closed(clean, ends.end()) if ends[0] == "{" else ends.end()
        parts[text[shown.rfind("\n", 0, each.start() + 1) + 1 : end]] += 1
    return parts
