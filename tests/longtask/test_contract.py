"""docs/contracts/longtask.md: its tables name the commands, options, words and rows of the code, and no others."""

import re
from pathlib import Path

from agent_harness.cli.lth import LTH
from agent_harness.protocols.longtask import evidence, lifecycle, schema
from agent_harness.protocols.longtask.run import classifier

PAGE = (Path(__file__).resolve().parents[2] / "docs/contracts/longtask.md").read_text()


def section(number: str) -> str:
    """The text below one heading, up to the next one."""
    found = re.search(rf"^##+ {re.escape(number)} .*?\n(.*?)(?=^##+ |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, number
    return found[1]


def rows(number: str, first: str) -> list[list[str]]:
    """The cells of a table of a section, by the title of its first column."""
    table = section(number).partition(f"\n| {first} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in table.splitlines()[2:]]


def words(text: str) -> list[str]:
    """Return the words in backquotes."""
    return re.findall(r"`([^`]+)`", text)


OF_SCALE = {"schedule"}
"""Commands that another page specifies: scale.md 9."""


def test_the_commands_and_their_options() -> None:
    named = {word for row in rows("2", "command") for word in words(row[0]) if not word.startswith("-")}
    assert named | OF_SCALE == {*LTH.verbs, *LTH.aliases, "help"}
    options = section("2").partition("Options by command")[2]
    table = {
        command: (set(re.findall(r"`--([a-z-]+)`", line)), set(re.findall(r"`--([a-z-]+)` F", line)))
        for line in re.findall(r"^\| (`.+) \|$", options, re.MULTILINE)
        for command in words(line.partition(" | ")[0])
    }
    for command, verb in LTH.verbs.items():
        if command in OF_SCALE:
            continue
        known = {each.name: each.value for each in verb.options.values()}
        every, flags = table.pop(command, (set(), set()))
        assert every == set(known), command
        assert flags == {name for name, value in known.items() if value is None}, command
    assert table == {}


def test_the_members_of_the_files() -> None:
    for number, known in (("3.1", schema.TASK), ("3.2", schema.CHECKPOINT)):
        listed = {word: "✓" in row[2] for row in rows(number, "member") for word in words(row[0])}
        assert listed == {name: name in known["required"] for name in known["properties"]}


def test_the_events() -> None:
    listed = {word for row in rows("3.4", "`type`") for word in words(row[0])}
    assert listed == set(schema.EVENT_TYPES)


def test_evidence() -> None:
    text = " ".join(section("3.3").split())
    order = text.partition("written in this order: ")[2].partition(". ")[0]
    assert tuple(words(order)) == evidence.ORDER
    types = text.partition("`lth evidence` takes ")[2].partition(". ")[0]
    assert tuple(words(types)) == schema.EVIDENCE_TYPES


def test_the_decisions() -> None:
    listed = [(words(row[2])[0], words(row[3])[0]) for row in rows("4", "#")]
    assert listed == [(decision, reason.replace("{status}", "<status>")) for _, decision, reason in lifecycle.ROWS]


def test_the_classes() -> None:
    listed = {words(row[0])[0]: (words(row[1])[0], float(row[3].split()[0])) for row in rows("11", "class")}
    assert listed == classifier.CLASSES


def test_every_departure_has_tests_of_its_number() -> None:
    """The rows of section 18 against the tests that are called ``test_row_NN_...``, both ways."""
    listed = [int(row[0]) for row in rows("18", "row")]
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    named = {int(number) for text in tests for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}
    assert listed == sorted(named) == list(range(1, len(listed) + 1))
