"""Names what the pages of a built site would fetch from elsewhere, one line each; status 1 when there is anything.

`make site` runs it on ``build/site``. Links that a reader follows may lead anywhere; what a browser loads by itself
(scripts, styles, pictures, fonts, frames, and connections made beforehand) has to come with the page.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

LOADED = {"src", "srcset", "poster", "data", "background", "xlink:href"}
"""Attributes whose address is loaded, whatever has them; ``href`` is one only of the elements below."""
LOADING = {"link", "base", "use", "image", "feimage"}
HARMLESS = {"canonical", "alternate", "author", "license", "help", "next", "prev"}
"""What a link element may point at without anything being loaded."""
AWAY = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLES = re.compile(r"(?:url\(|@import)\s*['\"]?\s*((?:https?:)?//[^'\")\s;]+)", re.IGNORECASE)


class Loads(HTMLParser):
    """Collects the addresses that a page loads from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value or "" for name, value in attrs}
        followed = tag == "link" and set(named.get("rel", "").lower().split()) <= HARMLESS
        for name, value in named.items():
            loaded = name in LOADED or (name == "href" and tag in LOADING and not followed)
            if loaded and AWAY.match(value):
                self.found.append(value)
        if named.get("http-equiv", "").lower() == "refresh":
            self.found += re.findall(r"(?:https?:)?//\S+", named.get("content", ""))
        self.found += IN_STYLES.findall(named.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "style":
            self.found += IN_STYLES.findall(data)


def foreign(path: Path) -> Iterator[str]:
    """What one file of the site would load from elsewhere."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".css":
        yield from IN_STYLES.findall(text)
    elif path.suffix in (".html", ".svg"):
        page = Loads()
        page.feed(text)
        yield from page.found


def main(site: Path) -> int:
    """1 when something is loaded from elsewhere, or when there is no page; else 0."""
    files = sorted(path for path in site.rglob("*") if path.is_file())
    lines = [f"{path.relative_to(site)}: {address}" for path in files for address in foreign(path)]
    if not any(path.suffix == ".html" for path in files):
        lines.append(f"{site}: no page is there")
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
