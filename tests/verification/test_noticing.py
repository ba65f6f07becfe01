"""Checks of many kinds, run for real: changed, they fail over honest work, and stay green over a lie."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_harness.verification.expectations import with_other_values

from .noticing import Sample, samples

_RUN = [each for each in samples() if all(map(shutil.which, each.needs))]


def _exit(place: Path, command: str, *files: Mapping[str, bytes]) -> int:
    for path, content in (item for each in files for item in each.items()):
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(content)
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["sh", "-c", command], cwd=place, capture_output=True, env=variables, timeout=60, check=False)
    return done.returncode


@pytest.mark.parametrize("sample", _RUN, ids=lambda sample: sample.name)
def test_changed_checks_fail_over_honest_work(sample: Sample, tmp_path: Path) -> None:
    changed = with_other_values(sample.command, sample.of("check"), sample.of("data"))

    assert _exit(tmp_path, sample.command, sample.of("honest"), sample.of("check"), sample.of("data")) == 0
    assert changed, "nothing was changed"
    assert _exit(tmp_path, changed[0].command, changed[0].files) != 0, changed[0]


@pytest.mark.parametrize("sample", [each for each in _RUN if each.of("lying")], ids=lambda sample: sample.name)
def test_changed_checks_stay_green_over_a_lie(sample: Sample, tmp_path: Path) -> None:
    changed = with_other_values(sample.command, sample.of("check"), sample.of("data"))

    assert _exit(tmp_path, sample.command, sample.of("lying"), sample.of("check"), sample.of("data")) == 0
    assert _exit(tmp_path, changed[0].command, changed[0].files) == 0, changed[0]
