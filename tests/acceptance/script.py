"""Scripts for the scripted agent, written in Python: one function a verb, ``turn`` for one start of the agent."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

Step = dict[str, object]
Turn = dict[str, object]

CODE = {
    "add": "def add(a, b):\n    return a + b\n",
    "sub": "def sub(a, b):\n    return a - b\n",
    "mul": "def mul(a, b):\n    return a * b\n",
    "div": "def div(a, b):\n    return mul(a, 1) / b\n",
    "pow": "def pow(a, b):\n    return 1 if b == 0 else mul(a, pow(a, b - 1))\n",
    "report": 'def report(a, b):\n    return f"{add(a, b)} {div(a, b)}"\n',
}
CHECKS = {
    "add": ("calc.add(2, 3) == 5", "calc.add(-1, 1) == 0"),
    "sub": ("calc.sub(2, 3) == -1", "calc.sub(5, 5) == 0"),
    "mul": ("calc.mul(2, 3) == 6", "calc.mul(0, 9) == 0"),
    "div": ("calc.div(6, 3) == 2", "calc.div(1, 2) == 0.5"),
    "pow": ("calc.pow(2, 3) == 8", "calc.pow(5, 0) == 1"),
    "report": ("calc.report(4, 2) == '6 2.0'", "calc.report(1, 1) == '2 1.0'"),
}
NAMES = tuple(CODE)


def name_of(feature: int) -> str:
    return NAMES[feature - 1]


def proof_path(feature: int) -> str:
    return f"tests/e2e/test_{name_of(feature)}.py"


def proof_text(feature: int) -> str:
    """Two real tests of a feature."""
    name = name_of(feature)
    first, second = CHECKS[name]
    one, two = (f"\n\ndef test_{name}_{n}():\n    assert {check}\n" for n, check in (("one", first), ("two", second)))
    return f"import calc\n{one}{two}"


def proof_ids(feature: int) -> list[str]:
    name = name_of(feature)
    return [f"{proof_path(feature)}::test_{name}_one", f"{proof_path(feature)}::test_{name}_two"]


def stub_text(feature: int) -> str:
    return f'import pytest\n\n\ndef test_{name_of(feature)}():\n    pytest.fail("Not implemented")\n'


# -- verbs -------------------------------------------------------------------------------------------------------------


def say(text: str) -> Step:
    return {"say": text}


def sh(command: str) -> Step:
    return {"run": command}


def write(path: str | Path, text: str) -> Step:
    return {"write": {"path": str(path), "text": text}}


def append(path: str | Path, text: str) -> Step:
    return {"append": {"path": str(path), "text": text}}


def claim(*features: int) -> Step:
    return {"claim": list(features)}


def evidence(feature: int) -> Step:
    return {"evidence": feature}


def forge(feature: int) -> Step:
    return {"forge": feature}


def progress(text: str) -> Step:
    return {"progress": text}


def commit(message: str) -> Step:
    return {"commit": message}


def usage(given: int, made: int, *, cost: float | None = None) -> Step:
    spent = {"input_tokens": given, "output_tokens": made}
    return {"usage": spent if cost is None else spent | {"cost_usd": cost}}


def sleep(seconds: float) -> Step:
    return {"sleep": seconds}


def http(status: int, **more: object) -> Step:
    """The provider refuses; ``refused`` is the whole turn of a client that gives up then."""
    return {"http": {"status": status, **more}}


def bad_json() -> Step:
    return {"bad_json": "truncated"}


def leave(status: int) -> Step:
    return {"exit": status}


def prompt_to(path: Path) -> Step:
    return {"prompt_to": str(path)}


def edit_features(expression: str) -> Step:
    """Runs Python over features.json; ``expression`` sees the list ``fs`` and the whole as ``d``."""
    program = (
        "import json, pathlib; p = pathlib.Path('features.json'); d = json.loads(p.read_text()); fs = d['features']; "
        f"{expression}; p.write_text(json.dumps(d, indent=2) + chr(10))"
    )
    return sh(f'python3 -c "{program}"')


# -- turns -------------------------------------------------------------------------------------------------------------


def turn(*steps: Step | Sequence[Step], times: int = 1, **when: object) -> Turn:
    """One start of the agent; it applies to the first occasion that fits ``when``, so many times at most."""
    flat: list[Step] = []
    for step in steps:
        flat.extend([step] if isinstance(step, dict) else step)
    return {"when": when, "times": times, "do": flat}


def refused(status: int, *, times: int, **more: object) -> Turn:
    """So many starts of a client whose every request is answered with this status."""
    return turn(http(status, **more), leave(1), times=times)


def implement(feature: int, code: str | None = None) -> list[Step]:
    """The code and the tests of one feature, without a claim."""
    name = name_of(feature)
    return [
        say("[FILE:READ] src/calc.py"),
        append("src/calc.py", "\n\n" + (CODE[name] if code is None else code)),
        say("[FILE:WRITE] src/calc.py"),
        write(proof_path(feature), proof_text(feature)),
        say(f"[FILE:WRITE] {proof_path(feature)}"),
    ]


def prove(feature: int, *, runs: bool = False) -> list[Step]:
    """Return the output steps of a run of the feature's tests, with the prefixes of the document.

    The agent starts the tests itself only if it ``runs`` them: the harness takes what it shows as a sign and runs
    them anyway, and a start of pytest is a tenth of the price of a session.
    """
    lines = [*(f"{test} PASSED" for test in proof_ids(feature)), "2 passed in 0.01s"]
    printed: Step = {"evidence": {"id": feature, "command": f"printf '%s\\n' {shlex.join(lines)}"}}
    return [
        say(f"[VERIFY:START] Feature #{feature}"),
        say(f"[CMD:RUN] python -m pytest {proof_path(feature)} -v"),
        evidence(feature) if runs else printed,
        say("[CMD:EXIT] 0"),
        say(f"[VERIFY:PASS] Feature #{feature}"),
    ]


def report(feature: int, *, decision: str = "Plain functions, no classes") -> list[Step]:
    """The progress entry and the last commit of the session that does this feature; sessions count like features."""
    name = name_of(feature)
    rule = "-" * 80
    entry = (
        f"\n{rule}\nSESSION {feature} - 2026-01-05 10:00\n{rule}\n\n"
        f"FEATURE: #{feature} ({name})\n\nWHAT I DID:\n- wrote {name}\n\nVERIFICATION:\n"
        f"$ python -m pytest {proof_path(feature)} -v\n2 passed\n\nDECISIONS:\n- {decision}\n\n"
        f"CURRENT STATE:\n- Feature #{feature} complete\n\nNEXT: the next feature\n"
    )
    return [say(f"[DECISION] {decision}"), progress(entry), commit(f"Implement {name}: {name} of two numbers")]


def honest(feature: int, *, decision: str = "Plain functions, no classes", runs: bool = False) -> list[Step]:
    """A whole honest session."""
    return [*implement(feature), *prove(feature, runs=runs), claim(feature), *report(feature, decision=decision)]


def save(path: Path, turns: Sequence[Mapping[str, object]]) -> Path:
    """Writes the script as a file that every seam can play."""
    path.write_text(json.dumps({"turns": list(turns)}, indent=2))
    return path
