"""What getting oriented costs after 300 sessions, as a multiple of the same after 3; and how long the summary gets.

Two projects of 200 features, alike but for their age: commits, progress entries, events, decisions and session records.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import timing

import project

YOUNG, OLD, FEATURES, ROUNDS = 3, 300, 200, 15
EVENTS = 40  # in a session
AT = "2026-01-05T09:00:00Z"


def measure(rounds: int = ROUNDS) -> Mapping[str, float]:
    """The ratio of `harness run --dry-run`, and the tokens of the old project's summary, four characters each."""
    with tempfile.TemporaryDirectory() as folder:
        env = timing.environment(Path(folder))
        places = {sessions: _grown(Path(folder) / str(sessions), env, sessions) for sessions in (YOUNG, OLD)}
        commands = {
            str(sessions): ["sh", "-c", f"cd '{place}' && exec '{project.HARNESS}' run --dry-run --agent command:true"]
            for sessions, place in places.items()
        }
        seconds = timing.medians(commands, cwd=Path(folder), env=env, rounds=rounds)
        return {"orientation": seconds[str(OLD)] / seconds[str(YOUNG)], "orientation-tokens": _tokens(places[OLD], env)}


def _tokens(place: Path, env: Mapping[str, str]) -> float:
    command = [project.HARNESS, "run", "--dry-run", "--agent", "command:true"]
    shown = subprocess.run(command, cwd=place, env=dict(env), capture_output=True, text=True, check=True).stdout
    summary = shown[shown.index("## Current State") :].partition("\n---")[0]
    return len(summary) / 4


def _grown(place: Path, env: Mapping[str, str], sessions: int) -> Path:
    project.planned(place, env)
    _write_features(place)
    logs = place / ".harness" / "logs"
    rows = range(1, sessions + 1)
    _append(logs / "events.jsonl", (_event(n, k) for n in rows for k in range(EVENTS)))
    _append(logs / "decisions.jsonl", ({"timestamp": AT, "session_id": n, "text": f"Chose way {n}"} for n in rows))
    _append(logs / "sessions.jsonl", (_session(n) for n in rows))
    with (place / "claude-progress.txt").open("a") as file:
        file.writelines(_entry(n) for n in rows)
    _commit(place, env, sessions)
    state = place / ".harness" / "session_state.json"
    record = json.loads(state.read_text()) | {"last_session": sessions, "wip_red_tests": []}
    state.write_text(json.dumps(record))
    return place


def _write_features(place: Path) -> None:
    features = [project.feature(number) for number in range(1, FEATURES + 1)]
    (place / "features.json").write_text(json.dumps({"project": "measured", "features": features}, indent=2))
    stub = (place / features[0]["test_file"]).read_text()
    for each in features:
        (place / each["test_file"]).write_text(stub)


def _commit(place: Path, env: Mapping[str, str], sessions: int) -> None:
    git = ["git", "-c", "user.name=Bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]
    subprocess.run([*git, "add", "-A"], cwd=place, env=dict(env), check=True)
    for number in range(sessions):
        words = [*git, "commit", "-q", "--allow-empty", "-m", f"Implement part {number}"]
        subprocess.run(words, cwd=place, env=dict(env), check=True)


def _append(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    with path.open("a") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def _event(session: int, number: int) -> Mapping[str, object]:
    return {"timestamp": AT, "level": "ROUTINE", "type": "tool_called", "session": session, "number": number}


def _session(number: int) -> Mapping[str, object]:
    return {"session_id": number, "started_at": AT, "ended_at": AT, "termination_reason": "complete"}


def _entry(number: int) -> str:
    rule = "=" * 80
    parts = f"COMPLETED:\n- Part {number}\n\nDECISIONS:\n- Chose way {number}\n"
    return f"\n{rule}\nSESSION {number} - 2026-01-05 09:00\n{rule}\n\n{parts}"
