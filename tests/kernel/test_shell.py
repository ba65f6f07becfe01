"""Shell text as commands and words: what every reader of commands builds on."""

import random
from collections.abc import Sequence

import pytest

from agent_harness.kernel.shell.reader import ShellCommand, ShellWord, read
from agent_harness.kernel.shell.wrappers import executed, program_at, script_of


def shown(commands: Sequence[ShellCommand]) -> list[str]:
    """Each command by its reserved words, the arm that it begins, and its words without their substitutions."""
    rows = list[str]()
    for each in commands:
        arm = [f"{'|'.join(word.text for word in each.patterns)})"] if each.patterns else []
        rows.append(" ".join([*each.keys, *arm, *each.plain]))
    return rows


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("a b;c&&d||e|f\ng &", ["a b", "c", "d", "e", "f", "g"]),
        ("echo a#b # c", ["echo a#b"]),
        ("a \\\n b", ["a b"]),
        ("if ! a; then b; else c; fi", ["if ! a", "then b", "else c", "fi"]),
        ("case $x in a|b) c;; (d) e;; f) ;; esac; g", ["case $x in", "a|b) c", "d) e", "f)", "esac", "g"]),
        ("case in in in) a;; esac", ["case in in", "in) a", "esac"]),
        ("echo $(case x in a) b;; esac) c", ["echo _ c"]),
        ("for x in a b; do c; done > f", ["for x in a b", "do c", "done", ""]),
        ("for x do c; done", ["for x", "do c", "done"]),
        ("for ((i = 0; i > 3; i++)); do c; done", ["for (( i = 0; i > 3; i++", "do c", "done"]),
        ("((x > 3)) && y", ["(( x > 3", "y"]),
        ("((a) || (b))", ["a", "b"]),
        ("f() { a; }; function g { b; }", ["f", "{ a", "}", "function g", "{ b", "}"]),
        ("'if' a; echo if", ["if a", "echo if"]),
        ("cat <<E | b\nc; d\nE\ne", ["cat", "b", "e"]),
        ("a 2>&1 >b {c}<>d &>e <<<f", ["a"]),
        ("a'b c'\"d $e\"f\\ g$'h\\'i'", ["ab cd $ef gh'i"]),
        ("\"${a:-it's}\" ${b:-'}'}", ["${a:-it's} ${b:-'}'}"]),
        ("a x<(b) >(c) `d` $((1 + 2))", ["a x_ _ _ _"]),
    ],
)
def test_a_text_becomes_its_commands(text: str, commands: list[str]) -> None:
    found = read(text)
    assert (shown(found.commands), found.fault) == (commands, "")


@pytest.mark.parametrize(
    "text",
    [
        "a $(x)",
        "a `x`",
        'a "`x`"',
        "a ${b:-$(x)}",
        "a $((1 + $(x)))",
        "a $((x); y)",
        "a <(x)",
        "a > $(x)",
        "a <<E\n$(x)\nE",
        "case a in $(x)) ;; esac",
        "a `b \\`x\\``",
        "(($(x)))",
    ],
)
def test_what_is_substituted_is_read_wherever_it_stands(text: str) -> None:
    found = [each.name for each, filtered in read(text).every() if filtered]
    assert "x" in found


@pytest.mark.parametrize("text", ["a <<'E'\n$(x)\nE", "a <<E\n\\$(x)\nE", "a '$(x)' \"\\$(x)\" \\`x\\`", "a # $(x)"])
def test_what_is_quoted_runs_nothing(text: str) -> None:
    assert [each.name for each, _ in read(text).every()] == ["a"]


@pytest.mark.parametrize(
    "text", ["a 'b", 'a "b', "a $'b\\'", "a $(b", "a `b", "a ${b", "case a in b", "a <(b", "a $((b", 'a "$(b"']
)
def test_what_no_shell_would_take_is_read_as_far_as_it_goes_and_told(text: str) -> None:
    found = read(text)
    assert found.fault
    assert found.commands


def test_each_letter_of_a_word_knows_its_place() -> None:
    text = "a'b'\\c\"d$e\" `f \"\\`g 'h'\\`\"` <<-E\n\ti\n\tE\n"

    def check(word: ShellWord) -> None:
        assert "".join(text[at] for at in word.at) == word.text
        for inner in (each for command in word.runs for each in command.words):
            check(inner)

    (command,) = read(text).commands
    assert command.document is not None
    assert command.document.text == "i\n"
    for word in (*command.words, command.document):
        check(word)


@pytest.mark.parametrize(
    "piece",
    ["$(", "${", "`", "((", '"$(', "'", '"', "case x in a) ", "<<E\n", "\\", "$((", "a|", "{ ", "<(", "f() { ("],
)
def test_a_large_text_of_any_kind_comes_to_an_end(piece: str) -> None:
    assert read(piece * 20_000) is not None


def test_any_text_is_read() -> None:
    pieces = [
        "$(",
        ")",
        "(",
        "`",
        '"',
        "'",
        "\\",
        "\n",
        "|",
        ";;",
        ">",
        "<<E\n",
        "E",
        "${",
        "}",
        "#",
        "case x in ",
        "esac",
    ]
    chance = random.Random(0)
    for _ in range(2000):
        text = "".join(chance.choices([*pieces, "x", " ", "((", "))", "$'", "for ", "in ", "do "], k=30))
        for command, _ in read(text).every():
            for word in command.words:
                assert "".join(text[at] for at in word.at) == word.text


@pytest.mark.parametrize(
    ("words", "program"),
    [
        ("A=1 B=2 x y", "x"),
        ("env -i A=1 -u B x", "x"),
        ("nohup timeout -k 1 -s TERM 5m nice -n 3 x", "x"),
        ("sudo -u bob -- x", "x"),
        ("uv run --with a --no-sync x", "x"),
        ("poetry run env A=1 x", "x"),
        ("npx --yes -p a x", "x"),
        ("xvfb-run -a -n 5 x", "x"),
        ("uv pip install x", "uv"),
        ("x timeout 5 y", "x"),
        ("timeout 5", "timeout"),
        ("command -v x", "command"),
    ],
)
def test_the_program_stands_behind_what_only_starts_it(words: str, program: str) -> None:
    assert words.split()[program_at(words.split())] == program


def test_what_a_program_is_given_to_run() -> None:
    assert script_of(["bash", "-o", "pipefail", "-ec", "a b", "c"]) == "a b"
    assert script_of(["eval", "a", "b"]) == "a b"
    assert script_of(["env", "A=1", "-S", "a b"]) == "a b"
    assert script_of(["bash", "a.sh"]) is None
    found = ["find", ".", "-exec", "a", "{}", ";", "-execdir", "b", "+"]
    assert [found[start:end] for start, end in executed(found)] == [["a", "{}"], ["b"]]
