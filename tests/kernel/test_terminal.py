"""What somebody else wrote can be shown, and steers no terminal."""

import codecs
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import terminal
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.terminal import (
    fitted,
    has_colour,
    is_plain,
    one_line,
    padded,
    printable,
    shortened,
    stand_in,
    width,
    wrapped,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain 'text', ä and 漢", "plain 'text', ä and 漢"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\nb\r", r"a\nb\r"),
        ("right\u202eleft", r"right\u202eleft"),
        ("half \udc80", r"half \udc80"),
        ("", ""),
    ],
)
def test_what_a_terminal_would_obey_stands_there_as_its_escape(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_one_line_has_single_blanks() -> None:
    assert one_line("  a\n\tb \x07 ") == r"a b \x07"


def test_a_path_of_any_bytes_can_be_shown() -> None:
    assert shown(b"n\xff\n\x1b") == r"n\xff\n\x1b"
    assert shown("ä b".encode()) == "ä b"


@given(st.text() | st.text(st.characters(categories=["Cc", "Cf", "Cs", "Zl"])))
def test_whatever_it_is_one_printable_line_comes_out(text: str) -> None:
    assert printable(text).isprintable()
    assert one_line(text).isprintable() and "  " not in one_line(text)
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [("plain", 9, "plain"), ("plain", 3, "pla"), ("漢字x", 4, "漢字"), ("漢字x", 3, "漢"), ("é", 1, "é"), ("", 0, "")],
)
def test_a_line_is_cut_by_the_columns_that_it_takes(line: str, columns: int, expected: str) -> None:
    """F-TERM-4."""
    assert fitted(line, columns) == expected


def test_lines_are_broken_at_words_and_keep_their_indent() -> None:
    """F-TERM-4: a path or a command that is too long stays whole, to be copied."""
    assert wrapped("  one two three four five six", 20) == ["  one two three four", "  five six"]
    path = "/a/very/long/path/of-a-file/which/is/longer"
    assert path in wrapped(f"see {path} now", 20)
    assert wrapped("short", 80) == ["short"]


def test_what_follows_a_label_stands_below_its_text_and_east_asia_breaks_anywhere() -> None:
    """F-TERM-4."""
    assert wrapped("cost       at least $0.42 of $200.00", 31) == ["cost       at least $0.42 of", "           $200.00"]
    assert wrapped("訪問者を 308 番で 8443 ポートへ", 20) == ["訪問者を 308 番で", "8443 ポートへ"]
    assert wrapped("表示する訪問者を転送し応答する", 20) == ["表示する訪問者を転送", "し応答する"]


@pytest.mark.parametrize(
    ("line", "columns", "expected"),
    [
        ("it takes 250 ms", 15, "it takes 250 ms"),
        ("it takes 2500 ms", 15, "it takes..."),
        ("  8443 and 8444", 13, "  8443 and..."),
        ("12345678901234567890", 10, "1234567..."),
        ("  12345678901234567890", 10, "  12345..."),
        ("表示する訪問者を転送", 12, "表示する..."),
        ("abc", 2, ".."),
        ("", 0, ""),
    ],
)
def test_what_is_left_out_is_whole_words_and_said(line: str, columns: int, expected: str) -> None:
    """B3: no number is cut, a reader would take it for another."""
    assert shortened(line, columns) == expected
    assert width(shortened(line, columns)) <= columns


def test_what_an_encoding_does_not_have_is_counted_as_it_will_stand_there() -> None:
    """F-TERM-5."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="backslashreplace")
    assert terminal.shown("12 € \x1b[2J", stream) == r"12 \u20ac \x1b[2J"
    assert terminal.shown("12 €", io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == "12 €"
    assert padded("漢字", 6) == "漢字  "


@given(st.text(st.characters(categories=["L", "N", "P", "Zs"])), st.integers(20, 200))
def test_no_word_is_lost_or_made_by_breaking(text: str, columns: int) -> None:
    assert "".join("".join(wrapped(text, columns)).split()) == "".join(text.split())
    assert all(width(row) <= columns or len(row.split()) == 1 for row in wrapped(text, columns))


@pytest.mark.parametrize(
    "text", ["tests \u2026 done \u2192 next", "\u2713 \u26a0 \u2013", 'ä "quoted" 漢 \U0001f600 \udc80']
)
def test_what_an_encoding_does_not_have_stays_readable_and_json_stays_json(text: str) -> None:
    """F-TERM-5: a stand-in where there is one, else the escape that JSON knows."""
    codecs.register_error("for-this-test", stand_in)
    shown = json.dumps(text, ensure_ascii=False).encode("ascii", "for-this-test").decode()
    known = {"\u2026": "...", "\u2192": "->", "\u2013": "-", "\u2713": "+", "\u26a0": "!"}
    assert json.loads(shown) == "".join(known.get(letter, letter) for letter in text)


@pytest.mark.parametrize(
    ("environ", "on_terminal", "plain", "colour"),
    [
        ({}, True, False, True),
        ({}, False, True, False),
        ({"NO_COLOR": "1"}, True, False, False),
        ({"FORCE_COLOR": "1"}, False, True, True),
        ({"HARNESS_COLOR": "always", "NO_COLOR": "1"}, False, True, True),
        ({"HARNESS_COLOR": "never", "FORCE_COLOR": "1"}, True, False, False),
        ({"HARNESS_COLOR": "auto"}, True, False, True),
        ({"TERM": "dumb"}, True, True, False),
        ({"CI": "true"}, True, True, True),
        ({"HARNESS_PLAIN": "1"}, True, True, True),
        ({"HARNESS_PLAIN": "0"}, True, False, True),
    ],
)
def test_when_lines_are_plain_and_when_they_are_coloured(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], on_terminal: bool, plain: bool, colour: bool
) -> None:
    """F-TERM-2, F-TERM-3."""

    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return on_terminal

    for name in ("NO_COLOR", "FORCE_COLOR", "HARNESS_COLOR", "CI", "HARNESS_PLAIN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert (is_plain(Stream()), has_colour(Stream())) == (plain, colour)
