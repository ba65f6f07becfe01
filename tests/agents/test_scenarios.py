"""The scripted agent can play its part in each of the acceptance scenarios of feature projects."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from agent_harness.agents.events import Event, RateLimited
from agent_harness.agents.markers import Actions
from agent_harness.supervision.monitors import ContextWindow, Watch
from agent_harness.supervision.stalls import RepeatedError, Stall
from agent_harness.supervision.supervisor import Evidence

SCENARIOS: dict[str, Any] = YAML(typ="safe", pure=True).load((Path(__file__).parent / "scenarios.yaml").read_text())

Play = Callable[..., Any]


@pytest.fixture
def scene(calc: Any) -> Play:
    """Play one turn of a scenario's script."""

    def play(name: str, *, agent: Any = None, **occasion: Any) -> Any:
        return calc.play({"agent": agent or {}, "turns": SCENARIOS[name]}, **occasion)

    return play


def rows(events: list[Event]) -> list[str]:
    actions = Actions()
    found: list[str] = []
    for event in events:
        actions, more = actions.after(event)
        found += [" ".join(str(value) for key, value in row.items() if key != "source") for row in more]
    return found


def asked(events: list[Event], *monitors: Any) -> list[str]:
    watch = Watch(monitors)
    return [f"{one.kind} {one.reason}" for event in events for one in watch.step(event, 0.0)]


def evidence(events: list[Event], file: str = "tests/e2e/test_add.py") -> Evidence:
    found = Evidence(file)
    for event in events:
        found = found.after(event)
    return found


def test_every_scenario_has_a_script() -> None:
    told = " ".join(SCENARIOS)
    assert [n for n in range(1, 26) if f"S{n:02}" not in told] == []


def test_s01(calc: Any, scene: Play) -> None:
    assert scene("S01", prompt_type="initializer", feature_id=None, session=0).status == 0
    assert json.loads(calc.read("features.json"))["generated_by"] == "initializer"
    assert os.access(calc.root / "init.sh", os.X_OK)
    assert calc.git("log", "-1", "--format=%s") == "Initial project setup by initializer agent"
    assert calc.git("status", "--porcelain") == ""
    for turn in (0, 1):
        scene("S01 b, no test_file in both turns", prompt_type="initializer", feature_id=None, session=0, round=turn)
        assert "test_file" not in calc.read("features.json")


def test_s02(calc: Any, scene: Play) -> None:
    played = scene("S02", agent={"prefixes": True})
    found = rows(played.events)
    for row in ("file_write src/calc.py", "cmd_exit 0", "verify_pass 1", "decision Plain functions, no classes."):
        assert row in found
    assert any(row.startswith("cmd_run python -m pytest tests/e2e/test_add.py") for row in found)
    assert evidence(played.events).passed
    assert calc.passing() == [1]
    assert (played.usage[0].input_tokens, played.usage[0].output_tokens) == (1450, 320)
    assert calc.git("log", "-1", "--format=%s") == "Implement add: User can add two numbers"


def test_s03(calc: Any, scene: Play) -> None:
    assert scene("S03 a, all talk").said == "all tests pass"
    assert evidence(scene("S03 b, wrong and then right").events).passed, "a lie looks like the truth"
    repaired = scene("S03 b, wrong and then right", round=1, prompt="1 FAILED")
    assert evidence(repaired.events).passed
    assert "a + b" in calc.read("src/calc.py")
    for turn in (0, 3):
        assert scene("S03 c, never repaired", round=turn).status == 0


def test_s04(calc: Any, scene: Play) -> None:
    cleanup = {"prompt_type": "cleanup", "feature_id": None}
    scene("S04 b, the cleanup claims", **cleanup)
    assert calc.passing() == [3]
    scene("S04 c, the cleanup breaks", **cleanup)
    assert "return 0" in calc.read("src/calc.py")
    scene("S04", **cleanup)
    assert "parts" in calc.git("status", "--porcelain")
    assert scene("S04", prompt_type="coding").status == 3


def test_s05_to_s07(calc: Any, scene: Play) -> None:
    scene("S05")
    assert calc.passing() == [1, 2, 3]
    calc.git("checkout", "-q", ".")
    scene("S06", feature_id=2)
    assert calc.passing() == [2]
    before = json.loads(calc.read("features.json"))["features"]
    scene("S07 a to f, the list itself")
    after = json.loads(calc.read("features.json"))["features"]
    assert [one["id"] for one in after] == [1, 2, 3, 4, 5, 7]
    assert after[1] == before[1] | {"description": "something else", "passes": False}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name.startswith("S08")])
def test_s08(name: str, calc: Any, scene: Play) -> None:
    played = scene(name, feature_id=2)
    assert played.status == 0
    assert calc.passing() == [2]
    result = evidence(played.events).result or ""
    if "failures turned" in name:
        assert "failed" not in result, "the cheat works"
    if "skipped" in name:
        assert result.startswith("1 skipped in")


def test_s09(calc: Any, scene: Play) -> None:
    calc.write(".harness/checkpoints/1/checkpoint.json", "{}")
    scene("S09 a to d, the harness's own state")
    assert json.loads(calc.read(".harness/session_state.json"))["last_session"] == 99
    assert not (calc.root / ".harness/checkpoints").exists()
    assert "harness_verify: false" in calc.read(".harness.yaml")


def test_s10(calc: Any, scene: Play, tmp_path: Path) -> None:
    calc.git("init", "-q", "--bare", str(tmp_path / "origin.git"))
    calc.git("remote", "add", "origin", str(tmp_path / "origin.git"))
    scene("S10")
    assert calc.git("log", "--format=%s").splitlines() == ["three, amended", "two", "one", "start"]
    assert calc.git("ls-remote", "origin", "main").split()[0] == calc.git("rev-parse", "HEAD")


def test_s11(calc: Any, scene: Play) -> None:
    scene("S11 a, cut off")
    assert calc.passing() == [1]
    assert evidence(scene("S11 a, cut off", prompt_type="continuation", session=2).events).passed


def test_s11_c(calc: Any) -> None:
    """The ancestors that are recognised by their command line die; the agent goes on."""
    script = calc.scripts / "kill.json"
    script.write_text(json.dumps({"turns": SCENARIOS["S11 c, the harness killed by its agent"]}))
    player = f"{sys.executable} -m agent_harness.agents.scripted {script}; touch survived"
    victim = "victim-4711"
    done = subprocess.run(
        [sys.executable, "-c", "import subprocess, sys; subprocess.run(['sh', '-c', sys.argv[1]])", player, victim],
        cwd=calc.root,
        env=os.environ | {"VICTIM": f" {victim} $"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -9


def test_s12(calc: Any, scene: Play) -> None:
    window = ContextWindow(window_tokens=10_000)
    played = scene("S12")
    assert asked(played.events, window) == ["steer context_limit", "wrap_up context_limit", "stop context_limit"]
    assert evidence(scene("S12", prompt_type="continuation", session=2).events).passed


def test_s13_and_s24(calc: Any, scene: Play) -> None:
    assert scene("S13").status == 0
    assert "# half" in calc.read("src/calc.py")
    assert scene("S24, a partial session").status == 0
    assert calc.passing() == []


def test_s14(calc: Any, scene: Play) -> None:
    plain = scene("S14 a, plain prose")
    assert not any(row.startswith(("verify", "decision", "cmd_exit")) for row in rows(plain.events))
    assert "file_write src/calc.py" in rows(plain.events)
    assert evidence(plain.events).passed
    calc.git("reset", "-q", "--hard", "HEAD~1")
    assert not evidence(scene("S14 b, no evidence").events).shown
    assert calc.passing() == [1]


@pytest.mark.parametrize(
    ("letter", "status", "refusals", "goes_on"),
    [
        ("a", 0, 2, True),
        ("b", 0, 2, True),
        ("c", 1, 4, False),
        ("d", 1, 0, False),
        ("e", 0, 0, True),
        ("f", 1, 0, False),
    ],
)
def test_s15(letter: str, status: int, refusals: int, goes_on: bool, scene: Play) -> None:
    (name,) = (name for name in SCENARIOS if name.startswith(f"S15 {letter}"))
    played = scene(name)
    assert played.status == status
    assert sum(isinstance(event, RateLimited) for event in played.events) == refusals
    assert ("going on" in played.said) == goes_on
    assert not played.usage


def test_s18_and_s25(calc: Any, scene: Play) -> None:
    scene("S18, whichever feature is chosen", feature_id=4)
    assert calc.passing() == [4]
    seen = rows(scene("S25, what was seen").events)
    assert "visual_screenshot .harness/screenshots/before.png" in seen
    assert "visual_verify the sum is shown" in seen


def test_s19_and_s20(calc: Any, scene: Play) -> None:
    assert scene("S19").usage[0].cost_usd == 15.0
    talk = scene("S20 a, talk only").events
    assert asked(talk, Stall(check_interval_tokens=2000)) == ["steer stuck", "wrap_up stuck"]
    error = scene("S20 b, one error seven times").events
    assert asked(error, RepeatedError(), Stall(check_interval_tokens=2000)) == ["steer repeated_error"]


def test_the_others(calc: Any, scene: Play) -> None:
    assert scene("S21 and S22, no agent is expected").status == 99
    assert scene("S16, S17 and S23, an honest agent whatever the surroundings").status == 0
    assert calc.passing() == [1]
