"""``lth schedule``: what cron and systemd are given, run as they run it."""

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    """In a folder whose name a shell, cron and systemd would all read otherwise."""
    made = LongTaskProject.of_book(tmp_path / "my 50% $book")
    made.task = {**made.task, "scheduler": {}}
    return made


def printed(project: LongTaskProject, *words: str) -> str:
    worker = () if "--worker" in words else ("--worker", "codex-cli")
    return str(project.lth("schedule", *worker, *words, code=0).out)


@pytest.mark.parametrize(
    ("every", "when"),
    [("10m", "*/10 * * * *"), ("1m", "*/1 * * * *"), ("2h", "0 */2 * * *"), ("1d", "0 0 * * *")],
)
def test_the_line_of_cron(project: LongTaskProject, every: str, when: str) -> None:
    told, line = printed(project, "--print", "cron", "--every", every).splitlines()
    assert told.startswith("# run crontab -e")
    assert line.startswith(f"{when} PATH=")
    command = line.removeprefix(f"{when} ").replace("\\%", "%")
    words = shlex.split(command)
    assert words[words.index("run") + 1] == str(project.root)


@pytest.mark.parametrize("form", ["cron", "systemd"])
def test_who_takes_over_is_named_as_the_recipe_names_them(project: LongTaskProject, form: str) -> None:
    project.task = book(workerPolicy={"preferred": "codex-cli", "fallbackOnRateLimit": "kimi"})
    assert "--fallback-worker" not in printed(project, "--print", form, "--worker", "kimi-cli")
    said = printed(project, "--print", form).replace('"', "")
    assert "--worker codex-cli --fallback-worker kimi-cli" in said


def test_the_line_of_cron_runs_a_slice_as_cron_runs_it(project: LongTaskProject) -> None:
    """With an almost empty environment, from another folder, by sh; and what goes wrong is in a file."""
    project.task = book(localWorker={"command": "touch ran"})
    line = project.lth("schedule", "--print", "cron", code=0).out.splitlines()[1]
    command = line.removeprefix("*/10 * * * * ").replace("\\%", "%")
    kept = {name: os.environ[name] for name in ("HOME", "XDG_STATE_HOME") if name in os.environ}
    ran = subprocess.run(["sh", "-c", command], cwd="/", env=kept, check=False, timeout=100, capture_output=True)
    errors = (project.root / "cron-errors.log").read_text()
    assert (ran.returncode, ran.stdout, errors) == (0, b"", "")
    assert [*project.root.rglob("ran")]
    (project.root / "task.json").write_text("{")
    again = subprocess.run(["sh", "-c", command], cwd="/", env=kept, check=False, timeout=100)
    assert again.returncode == 1
    assert "task.json" in (project.root / "cron-errors.log").read_text()


def test_the_units_of_systemd_run_the_same_command(project: LongTaskProject) -> None:
    """In quotes, with what systemd would expand doubled."""
    text = printed(project, "--print", "systemd", "--every", "45m", "--timeout-seconds", "600")
    (line,) = [line for line in text.splitlines() if line.startswith("ExecStart=")]
    decoder, rest = json.JSONDecoder(), line.removeprefix("ExecStart=")
    words: list[str] = []
    while rest:
        word, end = decoder.raw_decode(rest)
        words.append(word.replace("$$", "$").replace("%%", "%"))
        rest = rest[end:].lstrip()
    at = words.index("run")
    asked = ["--no-wait", "--worker", "codex-cli", "--timeout-seconds", "600"]
    assert words[at:] == ["run", str(project.root), *asked]
    assert "OnUnitInactiveSec=45min" in text
    assert "Type=oneshot" in text
    assert "systemctl --user enable --now lth-" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--print", "cron", "--every", "7m"), "cron cannot run a command every 7m"),
        (("--print", "cron", "--every", "60m"), "cron cannot run a command every 60m"),
        (("--print", "cron", "--every", "2d"), "cron cannot run a command every 2d"),
        (("--print", "cron", "--every", "soon"), "--every must be a time span, got 'soon'"),
        (("--every", "10m"), "--print needs a value: cron or systemd"),
        (("--print", "launchd"), "--print needs a value: cron or systemd"),
        (("--print", "cron", "--worker", "manual"), "No worker is set for unattended runs"),
    ],
)
def test_what_cannot_be_said_is_one_line(project: LongTaskProject, words: tuple[str, ...], said: str) -> None:
    more = () if "--worker" in words else ("--worker", "codex-cli")
    told = project.lth("schedule", *words, *more)
    assert (told.code, said in told.err, told.out) == (1, True, ""), told
