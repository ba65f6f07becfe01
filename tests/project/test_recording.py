"""The recording of the demo that the README opens with: whole in itself, small, and showing what the demo shows."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pyte

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "demo.svg"
SVG = "{http://www.w3.org/2000/svg}"
SHOWN = re.compile(r"animation:s ([\d.]+)s ([\d.]+)s")


def texts() -> list[tuple[float, bool, int, float, str]]:
    """Each piece of the picture: since when, whether it stays, its line, its column, its text."""
    found = []
    for element in ElementTree.parse(PICTURE).getroot().iter(f"{SVG}text"):
        shown = SHOWN.fullmatch(element.get("style", ""))
        assert shown
        last = "last" in element.get("class", "").split()
        found.append(
            (float(shown[2]), last, int(element.get("y", "")), float(element.get("x", "")), element.text or "")
        )
    return found


def test_the_readme_opens_with_it_and_it_is_small_and_asks_for_nothing() -> None:
    assert "](docs/demo.svg)" in (ROOT / "README.md").read_text().split("\n\n")[1]
    source = PICTURE.read_text()
    assert len(source) < 250_000
    assert set(re.findall(r"https?://[^\"' <]+", source)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"href|url\(|@import|<(script|image|use|foreignObject)|infinite", source)
    for rule in ("prefers-reduced-motion", "prefers-color-scheme:dark"):
        assert rule in source


def test_it_shows_the_lie_the_rollback_and_how_it_ended_within_ninety_seconds() -> None:
    said = texts()
    assert max(since for since, *_ in said) < 90
    told = "\n".join(text for *_, text in said)
    for words in ("FALSE:", "rolled back", "kept", "kill -9", "says it is done", "Verifying:"):
        assert words in told
    end = [text for _, last, *_, text in said if last]
    assert "Everything ended as promised." in end
    assert end.count("kept") == 9


def test_the_file_for_players_ends_with_the_same_screen() -> None:
    head, *frames = [json.loads(line) for line in (ROOT / "docs" / "demo.cast").read_text().splitlines()]
    assert (head["version"], head["width"], head["height"]) == (2, 100, 30)
    assert [at for at, *_ in frames] == sorted(at for at, *_ in frames)
    screen = pyte.Screen(100, 30)
    stream = pyte.Stream(screen)
    for _, kind, data in frames:
        assert kind == "o"
        stream.feed(data)
    lines: dict[int, list[tuple[float, str]]] = {}
    for _, last, y, x, text in texts():
        if last:
            lines.setdefault(y, []).append((x, text))
    words = [" ".join(text for _, text in sorted(lines[y])).split() for y in sorted(lines)]
    assert [line.split() for line in screen.display if line.strip()] == words


def test_no_path_of_a_machine_is_in_it() -> None:
    for name in ("demo.svg", "demo.cast"):
        paths = re.findall(
            r"(?<![\w.~])/(?:tmp|var|private|home|root|usr|opt|work|Users)/\S*", (PICTURE.parent / name).read_text()
        )
        assert paths == []
