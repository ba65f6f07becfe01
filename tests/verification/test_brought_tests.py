"""Tests that the work brought along and that cannot show it: each rule by a lie, and by honest work that is like it."""

import pytest

from agent_harness.verification.changes import FileChange
from agent_harness.verification.noticing.brought_tests import weakness
from agent_harness.verification.runner.testreport import PASSED, SKIPPED, RecordedCall

TEST = "tests/test_units.py"
UNITS = "FACTORS = {'km': 1000}\nEXAMPLES = {'km': 10}\n\n\ndef metres(n, unit):\n    return n * FACTORS[unit]\n"
MEAN = "def _mean(values):\n    return 0\n\n\ndef report(values):\n    return f'mean {_mean(values)}'\n"
FETCH = "import urllib.request\n\n\ndef _fetch(url):\n    return urllib.request.urlopen(url).read()\n"
PATCHED = (
    "from unittest.mock import patch\nfrom kit.{module} import {function}\n\n\ndef test_one():\n"
    "    with patch('kit.{module}.{patched}', return_value=2.0):\n        assert {function}([1]) == 'mean 2.0'\n"
)


def weak(test: str, work: str = UNITS, *, before: str | None = None, calls: str = "", outcomes: str = "") -> str:
    """Return the complaint about tests of ``kit/units.py``; ``calls`` are answers, ``outcomes`` a letter a test."""
    return weakness(
        [FileChange(path=TEST, status="A", after=test.encode())],
        [
            FileChange(
                path="src/kit/units.py",
                status="A" if before is None else "M",
                before=before.encode() if before is not None else None,
                after=work.encode(),
            )
        ],
        [RecordedCall("kit.units", "metres", "()", answer) for answer in calls.split()],
        {f"{TEST}::test_{n}": SKIPPED if each == "s" else PASSED for n, each in enumerate(outcomes)},
    )


FROM_UNITS = "from kit.units import EXAMPLES, metres\n\n\ndef test_km():\n    assert metres(2, 'km') == "


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (weak(f"{FROM_UNITS}EXAMPLES['km']\n"), "they expect the values in EXAMPLES"),
        (weak(f"{FROM_UNITS}EXAMPLES\n"), "they expect the values in EXAMPLES"),
        (weak(PATCHED.format(module="units", function="report", patched="_mean"), MEAN), "each test replaces _mean"),
        (weak(f"{FROM_UNITS}2000\n", outcomes="psss"), "3 of 4 of them are skipped or expected to fail"),
        (
            weak(f"{FROM_UNITS}2000\n", UNITS.replace("return n * FACTORS[unit]", "raise ValueError"), calls="raises"),
            "metres raises an error for any input",
        ),
        (
            weak(
                "import inspect\nfrom kit import units\n\n\ndef test_x():\n    assert 'n' in inspect.getsource(units)\n"
            ),
            "test_x searches the source",
        ),
        (
            weak(f"{FROM_UNITS}2000\n", UNITS.replace("unit):\n", 'unit):\n    """Metres."""\n'), before=UNITS),
            "the work changes no statement of src/kit/units.py",
        ),
    ],
)
def test_tests_that_cannot_show_the_work_are_told(found: str, says: str) -> None:
    assert says in found


@pytest.mark.parametrize(
    "found",
    [
        weak(f"{FROM_UNITS}2000\n", calls="2000 raises", outcomes="pps"),
        weak(f"{FROM_UNITS}2000\n", calls="raises raises"),
        weak(f"{FROM_UNITS}metres(1, 'km') * 2\n"),
        weak(f"{FROM_UNITS}EXAMPLES['km']\n    assert metres(1, 'km') == 1000\n"),
        weak("from kit.units import Unit, parse\n\n\ndef test_x():\n    assert parse('km') == Unit.KM\n"),
        weak(PATCHED.format(module="units", function="report", patched="_fetch"), FETCH),
        weak(f"{FROM_UNITS}2000\n", UNITS.replace("n * ", "2 * n * "), before=UNITS),
    ],
)
def test_honest_tests_that_look_alike_are_left_alone(found: str) -> None:
    assert found == ""
