"""Entries in little memory are the mapping that a dictionary would be, whatever they hold."""

import random

from agent_harness.verification.runner.entries import Collected, Entries

FOLDERS = ("", "/", "program /usr/bin/", "/site/", "/site/pkg/", "/site/b\udcff/", "/site/\U0001f40d/")
NAMES = ("git", "a.py", "b.py", "c d.py", "\udc80.py", "\n.py", "ü.pyc")
VALUES = ("", "1.2.3.4", "1.2.3.4 " + "0" * 64, "-> /else/where", "1.0\todd\0name\t\n", "2.0\t\U0001f40d")


def some(chance: random.Random) -> dict[str, str]:
    keys = [folder + name for folder in FOLDERS for name in NAMES if chance.random() < 0.5]
    return {key: chance.choice(VALUES) for key in chance.sample(keys, len(keys))}


def test_they_are_the_mapping_that_they_were_made_of_and_differ_as_dictionaries_do() -> None:
    chance = random.Random(3)
    for _ in range(200):
        old, new = some(chance), some(chance)
        before, now = Entries(old), Entries(new)
        assert dict(before) == old
        assert len(before) == len(old)
        assert all(before[key] == value and before.get(f"{key}x") is None for key, value in old.items())
        assert (before == now) is (old == new)
        assert before == Entries(dict(reversed(old.items())))
        gone, come = before.differing(now)
        assert gone == {key: value for key, value in old.items() if new.get(key) != value}
        assert come == {key: value for key, value in new.items() if old.get(key) != value}
        changes = {key: new.get(key) for key in chance.sample([*{**old, **new}], 5)}
        expected = {key: value for key, value in {**old, **changes}.items() if value is not None}
        assert before.with_changes(changes) == Entries(expected)
        assert dict(before) == old
        assert Entries.from_lines(before.lines()) == before


def test_what_is_found_again_as_it_was_is_kept_once() -> None:
    known = Entries({"/site/a.py": "1", "/site/b.py": "2", "/other/c.py": "3"})
    collected = Collected(known)
    collected.add("/site/", {"b.py": "2"})
    collected.add("/site/", {"a.py": "1"})
    collected.add("/other/", {"c.py": "4"})
    assert collected.folders["/site/"] is known.folders["/site/"]
    assert Entries.of_folders(collected.folders).differing(known) == ({"/other/c.py": "4"}, {"/other/c.py": "3"})
