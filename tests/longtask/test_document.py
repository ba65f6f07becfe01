"""docs/long-tasks.md: what it tells people to type works as it stands, and it names every command."""

import os
import re
import subprocess
import sys
from pathlib import Path

from agent_harness.cli.lth import LTH

PAGE = (Path(__file__).resolve().parents[2] / "docs/long-tasks.md").read_text()


def test_the_lines_of_the_page_can_be_pasted(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines()]
    assert len(lines) > 10
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Recorded done for demo" in done.stdout and (tmp_path / "demo/artifacts/today.txt").read_text()


def test_the_page_names_every_command_and_no_other() -> None:
    table = PAGE.partition("## Commands")[2].partition("Exit status")[0]
    named = [word for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)]
    assert set(named) == set(LTH.verbs)
