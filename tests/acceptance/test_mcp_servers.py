"""Settings of MCP servers arrive, or nothing starts; what they hold is written nowhere."""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing import write_tool_server
from agent_harness.testing.model_server import ModelServer, serve

from .api_seam import KEY, poured, texts_of
from .calc import CalcProject
from .script import CODE, proof_path, proof_text

ADDRESS = "postgresql://app:correct-horse-battery@db.example/app"
SERVER = """
def options(name):
    return [after for word, after in zip(sys.argv, sys.argv[1:]) if word == name]

def answer(name, given):
    if name == "navigate":
        return f"The page {given['url']} is open."
    if name == "screenshot":
        folder = pathlib.Path(options("--output-dir")[0])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "page.png").write_bytes(b"an image")
        return f"Saved {folder}/page.png"
    names = ("DATABASE_URI", "PGAPPNAME", "MODE", "ANTHROPIC_API_KEY")
    return json.dumps([sys.argv[1:], {n: os.environ.get(n) for n in names}])
"""


def install(calc: CalcProject, name: str) -> None:
    """A server of this name on PATH that says what it was given, and has a browser's tools."""
    folder = calc.base / "bin"
    folder.mkdir(exist_ok=True)
    write_tool_server(folder / name, {each: ["url"] for each in ("tell", "navigate", "screenshot")}, SERVER)
    calc.environ["PATH"] = f"{folder}:{calc.environ['PATH']}"


def describe(calc: CalcProject, **more: Any) -> None:
    """Gives the first feature further members, and the mark by which the model's script is found."""
    document = calc.features
    first = document["features"][0]
    first.update(description=f"{first['description']} SCRIPT:work", **more)
    (calc.root / "features.json").write_text(json.dumps(document, indent=2) + "\n")


@contextmanager
def model(*steps: Any) -> Iterator[tuple[ModelServer, Mapping[str, str]]]:
    with serve({"work": [*steps, "Done."]}) as server:
        yield server, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}


SETTINGS = """\
tools:
  mcp_servers:
    postgres:
      enabled: true
      command: postgres-mcp
      args: ["--schema", "${SCHEMA:-public}"]
      env: {PGAPPNAME: "app-${STAGE}"}
      config:
        connection_string: ${DATABASE_URL}
        read_only: true
        env: {MODE: "$${kept}"}
"""


@pytest.mark.exhaustive
def test_what_the_settings_say_reaches_the_server_and_nothing_else(calc: CalcProject) -> None:
    """UAH-212, UAH-215, UAH-216: variables are filled in, read_only is kept; the values are written nowhere."""
    install(calc, "postgres-mcp")
    describe(calc)
    calc.configure(SETTINGS)
    environ = {"DATABASE_URL": ADDRESS, "STAGE": "staging-7391"}
    with model({"tool": "postgres_tell", "input": {}}) as (server, at):
        ran = calc.harness("run", agent="api:anthropic", environ={**environ, **at})
        (told,) = texts_of(server.requests()[-1]["body"]["messages"][-1], "tool_result")
    given = {"DATABASE_URI": ADDRESS, "PGAPPNAME": "app-staging-7391", "MODE": "${kept}", "ANTHROPIC_API_KEY": None}
    assert json.loads(told) == [["--schema", "public", "--access-mode=restricted"], given], ran.text
    shown = calc.harness("config", "tools", environ=environ)
    assert "${DATABASE_URL}" in shown.out
    for secret in ("correct-horse-battery", "staging-7391"):
        assert secret not in ran.text + shown.text
        holding = [path for path in calc.base.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert holding == []
    assert "--access-mode=restricted" in (calc.root / ".harness/logs").joinpath("session-1.log").read_text()


def test_a_variable_that_is_not_set_is_named_before_anything_starts(calc: CalcProject) -> None:
    """UAH-216."""
    install(calc, "postgres-mcp")
    calc.configure(SETTINGS)
    before = calc.fingerprint()
    ran = calc.harness("run", agent="command:touch agent-was-here", environ={"STAGE": "x"})
    assert ran.code == 3, ran.text
    first, *_ = ran.err.splitlines()
    assert "config.connection_string needs the variable DATABASE_URL, which is not set" in first
    assert "export DATABASE_URL=" in ran.err
    assert calc.fingerprint() == before
    assert calc.harness("status").code == 0, "only what starts an agent needs them"
    doctor = calc.harness("doctor", "--json", environ={"HARNESS_AGENT": "command:true", "STAGE": "x"})
    (row,) = (each for each in doctor.json["checks"] if each["name"] == "mcp servers")
    assert (row["state"], "DATABASE_URL, which is not set" in row["message"]) == ("wrong", True)


@pytest.mark.exhaustive
def test_a_program_is_told_of_the_servers_by_a_file(calc: CalcProject, tmp_path: Path) -> None:
    """UAH-446: outside of the project, for the owner alone, gone afterwards."""
    install(calc, "postgres-mcp")
    calc.configure(SETTINGS)
    seen = calc.base / "seen.json"
    program = calc.base / "agent.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        "file = pathlib.Path(os.environ['HARNESS_MCP_CONFIG'])\n"
        f"pathlib.Path({str(seen)!r}).write_text(json.dumps("
        "{'path': str(file.resolve()), 'mode': file.stat().st_mode & 0o777, 'told': json.loads(file.read_text())}))\n"
    )
    agent = f"command:{shlex.quote(sys.executable)} {shlex.quote(str(program))}"
    ran = calc.harness("run", agent=agent, environ={"DATABASE_URL": ADDRESS, "STAGE": "seven"})
    found = json.loads(seen.read_text())
    assert found["told"] == {
        "mcpServers": {
            "postgres": {
                "command": "postgres-mcp",
                "args": ["--schema", "public", "--access-mode=restricted"],
                "env": {"DATABASE_URI": ADDRESS, "PGAPPNAME": "app-seven", "MODE": "${kept}"},
            }
        }
    }, ran.text
    assert found["mode"] == 0o600
    assert not Path(found["path"]).is_relative_to(calc.root.resolve())
    assert not Path(found["path"]).exists()


@pytest.mark.kill
def test_a_killed_harness_leaves_no_file_for_good(calc: CalcProject) -> None:
    """UAH-446: nobody was there to remove it; the next run does."""
    install(calc, "postgres-mcp")
    calc.configure(SETTINGS)
    calc.environ |= {"DATABASE_URL": ADDRESS, "STAGE": "seven"}
    seen, program = calc.base / "seen", calc.base / "agent.sh"
    program.write_text(f'printf %s "$HARNESS_MCP_CONFIG" > {seen}.part; mv {seen}.part {seen}; sleep 600\n')
    process = calc.start("run", agent=f"command:sh {program}")
    calc.wait_until(seen.exists, "the agent at work")
    process.kill()
    process.wait()
    path = Path(seen.read_text())
    assert path.exists()
    calc.harness("run", agent="command:true", after_kill=True)
    assert not path.exists()


@pytest.mark.exhaustive
def test_a_feature_is_looked_at_with_a_browser(calc: CalcProject) -> None:
    """UAH-092, UAH-214, UAH-447: the tests first, then the page; the picture lies where git does not see it."""
    install(calc, "playwright-mcp")
    describe(calc, visual_verification={"enabled": True, "steps": ["Open the page", "See the sum"]})
    calc.configure(
        "tools:\n  mcp_servers:\n    puppeteer:\n      enabled: true\n      command: playwright-mcp\n"
        "      config: {headless: true, viewport: {width: 800, height: 600}, screenshots_dir: .harness/screenshots}\n"
    )
    file = proof_path(1)
    work = [
        poured("src/calc.py", f'"""A calculator."""\n\n\n{CODE["add"]}', ">"),
        poured(file, proof_text(1), ">"),
        f"{shlex.quote(sys.executable)} -m pytest {file} -v",
    ]
    program = (
        "import pathlib; from agent_harness.agents.scripted.stage import with_passes; "
        "p = pathlib.Path('features.json'); p.write_bytes(with_passes(p.read_bytes().decode(), [1], True).encode())"
    )
    claim = f"{shlex.quote(sys.executable)} -P -c {shlex.quote(program)} && git add -A && git commit -qm Implemented"
    steps: list[Any] = [
        {"run": " && ".join(work)},
        {"tool": "puppeteer_navigate", "input": {"url": "http://localhost/"}},
        {"tool": "puppeteer_screenshot", "input": {}},
        [{"text": "[VISUAL:SCREENSHOT] .harness/screenshots/page.png\n[VISUAL:VERIFY] the sum is 5"}, {"run": claim}],
    ]
    with model(*steps) as (server, at):
        ran = calc.harness("run", agent="api:anthropic", environ=at)
        prompt = json.dumps(server.requests()[0]["body"]["messages"])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    order = ["First run its test file. Only when it passes:", "- Open the page", "- See the sum", "before and after"]
    places = [prompt.index(words) for words in order]
    assert places == sorted(places)
    assert "`.harness/screenshots/`" in prompt
    (kept,) = calc.events("screenshot_kept")
    assert (calc.root / kept["kept"]).read_bytes() == b"an image"
    assert calc.changes() == []
    assert not [path for path in calc.git("ls-files").splitlines() if path.endswith(".png")]
