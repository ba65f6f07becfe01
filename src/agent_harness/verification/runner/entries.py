"""What a look has found, entry by entry, in little memory: tens of thousands of paths with what is known of each.

The entries of a folder are one text, in the order of their names. So two looks are compared folder by folder, and what
a second look finds as it was is kept once.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Self

_NUL = "\udfff"  # stands for one inside of a text; of no file's name or content comes this


class Entries(Mapping[str, str]):
    """An immutable mapping of names, most of which are paths, to texts; ``ValueError`` for a name with a NUL."""

    __slots__ = ("_folders",)

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        self._folders = _changed({}, entries or {})

    @classmethod
    def of_folders(cls, folders: dict[str, str]) -> Self:
        """Those that ``Collected`` holds, or ``folders`` of another one."""
        made = cls.__new__(cls)
        made._folders = folders
        return made

    @property
    def folders(self) -> Mapping[str, str]:
        """The text of each folder, by all of a name up to and with its last slash."""
        return self._folders

    def __getitem__(self, key: str) -> str:
        folder, name = parted(key)
        return _unpacked(self._folders[folder])[name]

    def __iter__(self) -> Iterator[str]:
        return (f"{folder}{name}" for folder, text in self._folders.items() for name in text.split("\0")[::2])

    def __len__(self) -> int:
        return sum((text.count("\0") + 1) // 2 for text in self._folders.values())

    def as_dict(self) -> dict[str, str]:
        """All of them, for whoever asks for many; each single one is looked for in the text of its folder."""
        return _of(self._folders, self._folders)

    def __eq__(self, other: object) -> bool:
        return self._folders == other._folders if isinstance(other, Entries) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def differing(self, other: "Entries") -> tuple[dict[str, str], dict[str, str]]:
        """The entries of either that the other does not have, or knows something else of."""
        mine, theirs = self._folders, other._folders
        apart = [folder for folder in {*mine, *theirs} if mine.get(folder) != theirs.get(folder)]
        ours, others = _of(mine, apart), _of(theirs, apart)
        same = {key for key, value in ours.items() if others.get(key) == value}
        return _without(ours, same), _without(others, same)

    def with_changes(self, changes: Mapping[str, str | None]) -> "Entries":
        """The same entries but for these; ``None`` leaves one out."""
        return Entries.of_folders(_changed(dict(self._folders), changes)) if changes else self

    def lines(self) -> Iterator[bytes]:
        """The folders as they are written down, one a line."""
        return (b"%s\n" % json.dumps(pair).encode() for pair in self._folders.items())

    @classmethod
    def from_lines(cls, lines: Iterable[bytes]) -> Self:
        """What ``lines`` gave; ``ValueError`` where it is anything else."""
        folders: dict[str, str] = {}
        for line in lines:
            folder, text = json.loads(line)
            if not isinstance(folder, str) or not isinstance(text, str) or text.count("\0") % 2 != 1:
                raise ValueError("this is no folder with entries")
            folders[folder] = text
        return cls.of_folders(folders)


class Collected:
    """Entries that are being found, folder by folder. What is as in ``known`` is kept once."""

    def __init__(self, known: Entries | None = None, *, folders: dict[str, str] | None = None) -> None:
        self.folders = {} if folders is None else folders
        self._known = known.folders if known is not None else {}

    def add(self, folder: str, found: Mapping[str, str | None]) -> None:
        """Entries of a folder, by name; they take the place of what is there under the same names."""
        there = _unpacked(self.folders[folder]) if folder in self.folders else {}
        rows = sorted((name, value) for name, value in {**there, **found}.items() if value is not None)
        if not rows:
            self.folders.pop(folder, None)
            return
        if any("\0" in name for name, _ in rows):
            raise ValueError("a name holds a NUL")
        text = "\0".join(part.replace("\0", _NUL) if "\0" in part else part for row in rows for part in row)
        known = self._known.get(folder, "")
        self.folders[folder] = known if known == text else text


def _changed(folders: dict[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """The folders with these entries in place of theirs."""
    by_folder: dict[str, dict[str, str | None]] = {}
    for key, value in changes.items():
        folder, name = parted(key)
        by_folder.setdefault(folder, {})[name] = value
    collected = Collected(folders=folders)
    for folder, found in by_folder.items():
        collected.add(folder, found)
    return collected.folders


def parted(key: str) -> tuple[str, str]:
    """The folder of an entry, up to and with the last slash, and its name there."""
    folder, slash, name = key.rpartition("/")
    return folder + slash, name


def _unpacked(text: str) -> dict[str, str]:
    parts = text.split("\0")
    if _NUL in text:
        parts = [part.replace(_NUL, "\0") for part in parts]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _of(folders: Mapping[str, str], wanted: Collection[str]) -> dict[str, str]:
    texts = ((folder, folders[folder]) for folder in wanted if folder in folders)
    return {f"{folder}{name}": value for folder, text in texts for name, value in _unpacked(text).items()}


def _without(entries: dict[str, str], keys: Collection[str]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if key not in keys}
