"""Small checks with honest work that passes them, and with work that only makes them end with 0: ``noticing.txt``."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Sample:
    """A check, honest work, and work that answers wrongly and passes."""

    name: str
    needs: tuple[str, ...] = ()
    command: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)  # check, data, honest, lying; there by path

    def of(self, kind: str) -> dict[str, bytes]:
        """The files of a kind, by path."""
        return self.files.get(kind, {})


def samples() -> Iterator[Sample]:
    """All of them."""
    known: dict[str, bytes] = {}
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    for block in text.partition("\n== ")[2].split("\n== "):
        head, *parts = block.rstrip("\n").split("\n-- ")
        title, _, command = head.partition("\n$ ")
        name, _, needs = title.partition(" [")
        sample = Sample(name, tuple(needs.rstrip("]").split()), command)
        for part in parts:
            words, _, body = part.partition("\n")
            kind, path, *more = words.split()
            content = known[more[1]] if more[:1] == ["is"] else f"{body}\n".encode()
            known |= {more[1]: content} if more[:1] == ["as"] else {}
            sample.files.setdefault(kind, {})[path] = content
        yield sample
