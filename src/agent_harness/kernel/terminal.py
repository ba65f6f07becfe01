"""Text of unknown origin made fit for a terminal: what it would obey stands there as an escape."""

__all__ = ["one_line", "printable"]


def printable(text: str) -> str:
    """The text with every letter that is not printable, a line's end too, written as Python escapes it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """The same, with one blank for any run of blanks and line ends."""
    return printable(" ".join(text.split()))
