"""Checks that the self-test gives to agents. All projects use pytest. Task lists and long tasks also use other kinds of
check.

The files of a check are in ``sample/proofs/NAME``, and are copied over the sample project. For the oracle, a program in
the language of the work prints the answers of the work."""

from dataclasses import dataclass
from pathlib import Path

SAMPLE = Path(__file__).parent / "sample"
ANSWERS = SAMPLE / "answers"
PYTEST, SCRIPTED = "pytest", "scripted"
_ASKED = "almanac.numerals.to_roman(number) returns the Roman numeral of 1 to 3999 and raises ValueError for any other"
_IN_JAVASCRIPT = "toRoman(number) of lib/numerals.mjs returns the Roman numeral of 1 to 3999, else throws RangeError"
_IN_GO = "ToRoman(number) of the package numerals returns the Roman numeral of 1 to 3999, and an error for any other"
_IN_RUST = "numerals::to_roman(number: i64) returns the Roman numeral of 1 to 3999 as Ok(String), else an Err(String)"
_NODE_ANSWERS = ("node", str(ANSWERS / "answers.mjs"), ".")
_ONE_LINER = (
    'PYTHONPATH=src python3 -c "from almanac.numerals import to_roman as r; '
    "assert r(4) == 'IV'; assert r(14) == 'XIV'; assert r(1994) == 'MCMXCIV'\""
)


@dataclass(frozen=True, kw_only=True)
class TrialProof:
    command: str
    asked: str = _ASKED
    tool: str = ""  # a program that the check needs; without it, the trials are left out
    ignored: str = ""  # a folder of the sample that is in no commit
    answers: tuple[str, ...] = ()  # run in the folder of the work; by default Python answers
    whole: bool = False  # the whole project is in another language, and the agent writes its tests
    copied_to: str = ""  # path in the work to which the answering program is copied


PROOFS = {
    PYTEST: TrialProof(command="python3 -m pytest -q tests/test_numerals.py"),
    SCRIPTED: TrialProof(command="make -s one FILE=tests/test_numerals.py", tool="make"),
    "script": TrialProof(command="PYTHONPATH=src python3 checks/numerals.py"),
    "shell": TrialProof(command="sh checks/numerals.sh"),
    "own": TrialProof(command="sh checks/own.sh"),
    "module": TrialProof(command="PYTHONPATH=src python3 -m unittest -q tests.test_own"),
    "unittest": TrialProof(command="PYTHONPATH=src python3 -m unittest -q checks/check_numerals.py"),
    "make": TrialProof(command="make -s numerals", tool="make"),
    "one-liner": TrialProof(command=_ONE_LINER),
    "table": TrialProof(command="sh checks/table.sh", tool="awk"),
    "lent": TrialProof(command="sh checks/same.sh", ignored="vendor/"),
    "node": TrialProof(
        command="node --test checks/numerals.test.mjs", asked=_IN_JAVASCRIPT, tool="node", answers=_NODE_ANSWERS
    ),
    "npm": TrialProof(command="npm test --silent", asked=_IN_JAVASCRIPT, tool="npm", answers=_NODE_ANSWERS),
    "javascript": TrialProof(command="npm test", asked=_IN_JAVASCRIPT, tool="npm", whole=True, answers=_NODE_ANSWERS),
    "go": TrialProof(
        command="go test ./...",
        asked=_IN_GO,
        tool="go",
        whole=True,
        answers=("go", "run", "./answers"),
        copied_to="answers/main.go",
    ),
    "rust": TrialProof(
        command="cargo test --offline",
        asked=_IN_RUST,
        tool="cargo",
        whole=True,
        ignored="target/",
        answers=("cargo", "run", "-q", "--offline", "--example", "answers"),
        copied_to="examples/answers.rs",
    ),
}
