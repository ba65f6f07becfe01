"""The site of the documentation: every page has its place in it, and nothing that it loads comes from elsewhere."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
SETTINGS: dict[str, Any] = YAML(typ="safe").load(ROOT / "mkdocs.yml")

LOADED = {
    "a script": '<script src="https://example.invalid/a.js"></script>',
    "a style sheet": '<link rel="stylesheet" href="//example.invalid/a.css">',
    "a connection beforehand": '<link rel="preconnect" href="https://example.invalid">',
    "a picture": '<img alt="" src="HTTP://example.invalid/a.png">',
    "a frame": '<iframe src="https://example.invalid"></iframe>',
    "a font in a style": "<style>@font-face{src:url('https://example.invalid/a.woff2')}</style>",
    "a style of an element": '<p style="background:url(//example.invalid/a.png)">',
    "another page by itself": '<meta http-equiv="refresh" content="0; url=https://example.invalid/">',
}
QUIET = """<link rel="canonical" href="https://example.invalid/"><a href="https://example.invalid/">a link</a>
<script src="assets/a.js"></script><img alt="" src="data:image/png;base64,aaaa"><p>url(https://example.invalid)</p>"""


def looked_at(site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "foreign.py"), str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", LOADED)
def test_what_a_page_loads_from_elsewhere_is_named(kind: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "index.html").write_text(f"<!doctype html>{LOADED[kind]}")
    done = looked_at(tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("sub/index.html: ") and "//example.invalid" in done.stderr


def test_links_that_are_followed_may_lead_anywhere_and_styles_are_read(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(QUIET)
    (tmp_path / "a.css").write_text("body{background:url(a.png)}")
    done = looked_at(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "a.css").write_text("@import 'https://example.invalid/b.css';")
    assert looked_at(tmp_path).stderr == "a.css: https://example.invalid/b.css\n"


def test_a_site_without_a_page_is_no_site(tmp_path: Path) -> None:
    assert looked_at(tmp_path).returncode == 1


def test_every_page_has_its_place_and_no_other_is_named() -> None:
    def named(part: Any) -> Iterator[str]:
        parts = part.values() if isinstance(part, dict) else part
        for each in parts:
            yield from [each] if isinstance(each, str) else named(each)

    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = list(named(SETTINGS["nav"]))
    assert len(listed) == len(set(listed))
    assert set(listed) == {page for page in pages if not page.startswith("decisions/")} | {"decisions/index.md"}


def test_the_settings_ask_for_no_font_and_no_repository_of_another_host() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert not {"repo_url", "extra_css", "extra_javascript", "extra", "hooks"} & set(SETTINGS)
