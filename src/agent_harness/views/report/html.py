"""HTML elements as function calls. All text and attributes are escaped, and raw markup cannot be passed in.

    render(E("p", "a <b>", E("code", "x"), id="p1"))     ->  <p id="p1">a &lt;b&gt;<code>x</code></p>

Control characters, including those that change the text direction, become visible escapes. ``faces.md`` 5."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

__all__ = ["E", "Element", "clean", "in_markdown", "render"]

_VOID = frozenset({"meta", "br", "input", "hr", "link"})
_RAW = frozenset({"style", "script"})

Child = "Element | str | None"


class Element:
    """HTML element. Attributes with the value None or False are omitted from the HTML."""

    __slots__ = ("attributes", "children", "tag")

    def __init__(self, tag: str, children: tuple[Element | str | None, ...], attributes: dict[str, object]) -> None:
        self.tag, self.children, self.attributes = tag, children, attributes


def E(tag: str, *children: Element | str | None, **attributes: object) -> Element:
    """Return an HTML element. In attribute names, a final underscore is dropped, and other underscores become
    hyphens."""
    return Element(tag, children, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()})


def clean(text: str) -> str:
    """Return the text with unprintable characters as Python escapes. Keep line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else repr(each)[1:-1] for each in text)


def render(element: Element) -> str:
    return "".join(_parts(element))


def _parts(element: Element) -> Iterator[str]:
    yield f"<{element.tag}"
    for name, value in element.attributes.items():
        if value is True:
            yield f" {name}"
        elif value is not None and value is not False:
            yield f' {name}="{escape(clean(str(value)))}"'
    yield ">"
    if element.tag in _VOID:
        return
    for child in element.children:
        if isinstance(child, Element):
            yield from _parts(child)
        elif child is not None:
            yield child if element.tag in _RAW else escape(clean(child))
    yield f"</{element.tag}>"


def in_markdown(text: object) -> str:
    """Return untrusted text for a Markdown table cell, escaped so that the text creates no markup."""
    signs = {
        "\\": "\\\\",
        "|": "\\|",
        "<": "&lt;",
        ">": "&gt;",
        "[": "\\[",
        "]": "\\]",
        "`": "'",
        "*": "\\*",
        "_": "\\_",
        "@": "@\u200b",
    }
    return "".join(signs.get(each, each) for each in " ".join(str(text).split()))
