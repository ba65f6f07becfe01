"""What is shown as the next command can be pasted into a shell: one command, and behind ``#`` what else there is."""

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_harness
from agent_harness.protocols.features import questions, records
from agent_harness.protocols.features.reader import asked_question

PACKAGE = Path(agent_harness.__file__).parent
PROGRAMS = ("harness", "lth", "git", "cd", "export", "ls", "less", "mkdir", "rm", "ssh", "source")
MEANT = {"harness hook stop < payload.json", "harness completion X > harness.X"}  # what is read, and where it goes
FIELDS = ("hint", "next", "fix", "following", "answer")


def text_of(node: ast.expr) -> str | None:
    """A text, in which a word stands for what is filled in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values)
    return None


def advised(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts that are handed on as the next command, and those that say that they are it."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.keyword) and node.arg in FIELDS:
            given.append(node.value)
        if isinstance(node, ast.Assign) and any(
            _name(each) in (*FIELDS, "how_to_begin", "add") for each in node.targets
        ):
            given.append(node.value)
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            given += [value for key, value in pairs if isinstance(key, ast.Constant) and key.value in ("next", "hint")]
        for value in given:
            parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
            yield from ((each.lineno, text) for each in parts if (text := text_of(each)))
        if isinstance(node, ast.Constant | ast.JoinedStr) and (text := text_of(node)) and "next: " in text:
            yield from ((node.lineno, line.partition("next: ")[2]) for line in text.splitlines() if "next: " in line)


def _name(node: ast.expr) -> str:
    return node.id.lower() if isinstance(node, ast.Name) else ""


def typed(text: str) -> str:
    """The command in it, without what stands behind ``#``."""
    return re.split(r"\s#\s", text)[0]


def test_every_command_that_is_advised_can_be_pasted() -> None:
    """No pipe, no redirection, no bracket that a shell would obey; what is no part of it stands behind a ``#``."""
    wrong: list[str] = []
    seen = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in advised(ast.parse(path.read_text())):
            command = typed(text)
            if command.split(" ")[0] not in PROGRAMS or command in MEANT:
                continue
            seen += 1
            lexer = shlex.shlex(command, posix=True, punctuation_chars="|<>();")
            lexer.whitespace_split, lexer.commenters = True, ""
            try:
                words = list(lexer)
            except ValueError:  # an apostrophe of a sentence
                words = ["|"]
            bad = [word for word in words if word and set(word) <= set("|<>();")]
            said = re.search(r"\S(\s{2,}|, (?:or|and|then)\b)", re.sub(r"'[^']*'|\"[^\"]*\"", "q", command))
            if bad or said:
                wrong.append(f"{path.relative_to(PACKAGE)}:{line}: {text}")
    assert wrong == [], "\n".join(wrong)
    assert seen > 300


@pytest.mark.parametrize("kind", questions.OPTIONS)
def test_what_answers_a_question_is_one_command_and_the_others_are_named(kind: str) -> None:
    asked = questions.question(kind, "What now?", feature_id=3)
    line = questions.hint(asked)
    command, _, others = line.partition("  # or ")
    words = shlex.split(command)
    assert words[:3] == ["harness", "resume", "--choose"]
    assert sorted([words[3], *others.split(", ")]) == sorted(questions.OPTIONS[kind])
    assert words[3] == "retry" or "retry" not in questions.OPTIONS[kind]
    done = subprocess.run(
        ["bash", "-c", f'harness() {{ printf "%s\\n" "$@"; }}; {line}'], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == words[1:]
    shown = asked_question(asked)
    assert shown.answer == line
    assert [shlex.split(each)[3] for each in shown.answers] == list(questions.OPTIONS[kind])


def test_an_option_that_somebody_wrote_into_the_state_is_one_word() -> None:
    odd = records.Question({"type": "odd", "message": "x", "options": ["a; touch /tmp/x", "$(id)"]})
    assert shlex.split(questions.hint(odd), comments=True)[3] == "a; touch /tmp/x"
    assert "'$(id)'" in asked_question(odd).answers[1]
