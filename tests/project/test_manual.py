"""The pages for ``man``: of the words that the programs read, whole, and shown without a complaint."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_harness.cli.machine import words

PAGES = Path(__file__).resolve().parents[2] / "man/share/man/man1"
REQUESTS = {".TH", ".SH", ".SS", ".TP", ".IP", ".PP", ".RS", ".RE", ".B", ".BR", ".nf", ".fi", '.\\"'}


def shown(line: str) -> str:
    """A line as a person reads it."""
    return line.replace("\\&", "").replace("\\-", "-").replace("\\(ga", "`").replace("\\e", "\\")


@pytest.mark.parametrize("program", ["harness", "lth"])
def test_every_command_and_option_stands_there_and_roff_reads_no_word_of_ours(program: str) -> None:
    """F-HELP-4."""
    lines = (PAGES / f"{program}.1").read_text().splitlines()
    assert {line.split()[0] for line in lines if line.startswith((".", "'"))} <= REQUESTS
    assert lines[1].startswith(f'.TH {program.upper()} 1 "" "agent-harness ')
    heads = [shown(line.removeprefix(".B ")) for line in lines if line.startswith(".B ")]
    typed = {word.rstrip(",") for head in heads for word in head.split()}
    for path, at in words.walk().items():
        if path.split()[0] == program:
            assert any(head == path or head.startswith(f"{path} ") for head in heads), path
            assert set(at.options) - {"--help"} <= typed, path
    assert lines.count(".nf") == lines.count(".fi")
    assert lines.count(".RS") == lines.count(".RE")


@pytest.mark.skipif(shutil.which("man") is None or shutil.which("groff") is None, reason="no man here to show a page")
@pytest.mark.parametrize("program", ["harness", "lth"])
def test_man_shows_the_page_and_complains_of_nothing(program: str) -> None:
    command = ["man", "--warnings", "-E", "UTF-8", "-l", str(PAGES / f"{program}.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(re.sub(".\x08", "", done.stdout).split())
    assert f"NAME {program} - " in text
    assert "EXIT STATUS" in text
    assert {"harness": "--until-done", "lth": "--fallback-worker NAME"}[program] in text
