"""What somebody else wrote can be shown, and steers no terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel.git.status import shown
from agent_harness.kernel.terminal import one_line, printable


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
