"""Installed files where tests run: the ones a session may install, and those that need a person's word."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel.process.sandbox import AUTO, kind_for
from agent_harness.verification.command import starts_python
from agent_harness.verification.runner.environment import released, resolve
from agent_harness.verification.runner.installed import Installed, places
from agent_harness.verification.runner.installed_changes import Differences, compiled_anew, differences
from agent_harness.verification.runner.installed_record import FirstLook, InstalledRecord
from agent_harness.verification.runner.interpreters import Interpreter
from agent_harness.verification.verdict import Verdict

from .sample import HONEST, JudgedProject, codes

Make = Callable[..., JudgedProject]
PLUGIN = "[pytest11]\nodd = odd_plugin\n"


def install(site: Path, name: str, version: str, files: Mapping[str, str], **metadata: str) -> Path:
    """A distribution as an installer leaves it; its folder of metadata."""
    for old in site.glob(f"{name}-*.dist-info"):
        shutil.rmtree(old)
    place = site / f"{name}-{version}.dist-info"
    texts = {
        **files,
        f"{place.name}/METADATA": f"Name: {name}\n{metadata.get('requires', '')}\n\nRequires-Dist: in-the-text",
    }
    if "plugins" in metadata:
        texts[f"{place.name}/entry_points.txt"] = metadata["plugins"]
    rows = [f"{place.name}/RECORD,,"]
    for path, text in texts.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).unlink(missing_ok=True)
        (site / path).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(text)}")
    (place / "RECORD").write_text("\n".join(rows))
    return place


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The folder of packages of a made-up environment with a runner, one of its plugins, and another package."""
    site = tmp_path / "project/.venv/site"
    install(site, "pytest", "8.4.0", {"_pytest/runner.py": "x = 1\n", "_pytest/__init__.py": ""}, requires=REQUIRES)
    install(site, "pluggy", "1.6.0", {"pluggy/__init__.py": "x = 1\n", "pluggy/sub/deep.py": "x = 1\n"})
    install(site, "pytest_known", "1.0", {"known.py": "x = 1\n"}, plugins="[pytest11]\nknown = known\n[other]\na = b\n")
    install(site, "requests", "2.0", {"requests/__init__.py": "x = 1\n", "requests/_version.py": "v = 2\n"})
    (site / "_pytest/__pycache__").mkdir()
    (site / "_pytest/__pycache__/runner.cpython-311.pyc").write_text("x")
    (site / "old.pth").write_text("/somewhere\n")
    place = site.parent
    (place / "pyvenv.cfg").write_text("home = /usr\n")
    (place / "python").write_text("binary")
    (place / "python").chmod(0o755)
    (place / "lib").mkdir()
    (place / "lib/unittest.py").write_text("x = 1\n")
    return site


REQUIRES = "Requires-Dist: pluggy<2,>=1.5\nRequires-Dist: requests>=2; extra == 'dev'"


def looked(site: Path) -> Installed:
    place = str(site.parent)
    python = Interpreter(
        executable=f"{place}/python",
        prefix=place,
        scripts=place,
        sites=(str(site), f"{place}/user"),
        library=(f"{place}/lib",),
        version="3.11.7",
    )
    search = f"{place}/early:{os.environ['PATH']}"
    return Installed(interpreters=(python,), programs=("git",), search=search, root=str(site.parents[1])).now()


def changed(site: Path, before: Installed) -> Differences:
    return differences(before, before.now(), project=site.parents[1])


def said(found: Differences) -> list[str]:
    return [finding.code for finding in found.findings]


# ---- what rejects ----------------------------------------------------------------------------------------------------

STEERS = ["environment_changed"]
SETUPTOOLS_FINDER = "import __editable___a_finder; __editable___a_finder.install()\n"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("site/new.pth", "import os; os.system('true')\n", STEERS),
        ("site/new.pth", "/elsewhere\n", STEERS),
        ("site/old.pth", "/other\n", STEERS),
        ("site/old.pth", None, []),
        ("site/new.pth", "{project}/src\n# more\n\n", []),
        ("site/new.pth", SETUPTOOLS_FINDER, []),
        ("site/new.pth", SETUPTOOLS_FINDER.replace("a_finder.i", "b_finder.i"), STEERS),
        ("site/sitecustomize.py", "x = 1\n", STEERS),
        ("user/usercustomize.py", "x = 1\n", STEERS),
        ("site/_pytest/runner.py", "x = 2\n", STEERS),
        ("site/_pytest/runner.py", None, STEERS),
        ("site/_pytest/extra.py", "x = 2\n", STEERS),
        ("site/_pytest/runner.abi3.so", "x = 2\n", STEERS),
        ("site/pluggy/sub/deep.py", "x = 2\n", STEERS),
        ("site/known.py", "x = 2\n", STEERS),
        ("user/_pytest/__init__.py", "x = 1\n", STEERS),
        ("site/requests/__init__.py", "x = 2\n", STEERS),
        ("site/requests/generated.py", "x = 2\n", ["packages_changed"]),
        ("site/requests/data.json", "x = 2\n", []),
        ("site/requests/weights.pth", "x = 2\n", []),
        ("site/stub/__init__.py", "x = 1\n", STEERS),
        ("site/stub.py", "x = 1\n", STEERS),
        ("site/thing.egg/thing.py", "x = 1\n", ["packages_changed"]),
        ("site/_pytest/__pycache__/runner.cpython-311.pyc", "y", []),
        ("site/requests/__pycache__/__init__.cpython-311.pyc", "y", []),
        ("pyvenv.cfg", "home = /elsewhere\n", STEERS),
        ("python", "other", STEERS),
        ("python", None, STEERS),
    ],
)  # fmt: skip
def test_what_changes_around_the_interpreter(site: Path, path: str, text: str | None, expected: list[str]) -> None:
    before = looked(site)
    place = site.parent / path
    if text is None:
        place.unlink()
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.format(project=site.parents[1]))
    assert said(changed(site, before)) == expected


def test_the_message_says_what_it_is_and_what_puts_it_back(site: Path) -> None:
    before = looked(site)
    (site / "_pytest/runner.py").write_text("x = 2\n")
    message = changed(site, before).findings[0].message
    assert ".venv/site/_pytest/runner.py was changed" in message
    assert ".venv/python -m pip install --force-reinstall --no-deps pytest==8.4.0" in message


def test_another_git_is_found_first(site: Path) -> None:
    before = looked(site)
    (site.parent / "early").mkdir()
    (site.parent / "early/git").symlink_to("/bin/true")
    found = changed(site, before)
    assert said(found) == STEERS
    assert "git was" in found.findings[0].message


# ---- what may come ---------------------------------------------------------------------------------------------------


def test_a_new_distribution_is_named(site: Path) -> None:
    before = looked(site)
    install(site, "httpx", "1.0", {"httpx/__init__.py": "x = 1\n", "httpx/sub/a.py": ""})
    found = changed(site, before)
    assert said(found) == ["packages_changed"]
    assert found.packages == ("httpx",)


def test_another_version_of_what_runs_no_tests(site: Path) -> None:
    before = looked(site)
    install(site, "requests", "3.0", {"requests/__init__.py": "x = 3\n"})
    (site / "requests/_version.py").unlink()
    assert said(changed(site, before)) == ["packages_changed"]


def test_the_same_installed_again_is_no_change(site: Path) -> None:
    before = looked(site)
    install(site, "pytest", "8.4.0", {"_pytest/runner.py": "x = 1\n", "_pytest/__init__.py": ""}, requires=REQUIRES)
    install(site, "requests", "2.0", {"requests/__init__.py": "x = 1\n", "requests/_version.py": "v = 2\n"})
    for path in site.rglob("*"):
        os.utime(path)
    os.link(site / "pluggy/__init__.py", site.parent / "cached")  # as an installer does for another environment
    assert said(changed(site, before)) == []


def test_another_version_of_the_runner_asks_a_person(site: Path) -> None:
    before = looked(site)
    install(site, "pluggy", "1.7.0", {"pluggy/__init__.py": "x = 2\n", "pluggy/sub/deep.py": "x = 1\n"})
    found = changed(site, before)
    assert said(found)[0] == "environment_changed"
    assert "pluggy 1.6.0 is 1.7.0 now" in found.findings[0].message
    patterns = [str(path) for path in (found.findings[0].data["paths"])]  # type: ignore[attr-defined]
    assert said(found.without(released(patterns))) == ["packages_changed"]
    assert said(found.without(released([".venv/**"]))) == ["packages_changed"]


def test_a_record_that_is_bent_with_its_file_is_another_one(site: Path) -> None:
    before = looked(site)
    install(site, "pytest", "8.4.0", {"_pytest/runner.py": "x = 9\n", "_pytest/__init__.py": ""}, requires=REQUIRES)
    assert said(changed(site, before))[0] == "environment_changed"


def test_another_distribution_cannot_own_a_file_of_the_runner(site: Path) -> None:
    before = looked(site)
    install(site, "helpful", "1.0", {"_pytest/runner.py": "x = 9\n"})
    assert said(changed(site, before))[0] == "environment_changed"


def test_the_runner_in_a_folder_that_comes_first(site: Path) -> None:
    before = looked(site)
    install(site.parent / "user", "pytest", "8.4.0", {"_pytest/runner.py": "x = 1\n", "_pytest/__init__.py": ""})
    assert said(changed(site, before))[0] == "environment_changed"


def test_where_no_runner_was_one_may_come(tmp_path: Path) -> None:
    site = tmp_path / "project/.venv/site"
    (site.parent / "user").mkdir(parents=True)
    site.mkdir()
    before = looked(site)
    install(site, "pytest", "8.4.0", {"_pytest/__init__.py": ""})
    install(site, "pytest_odd", "1.0", {"odd_plugin.py": ""}, plugins=PLUGIN)
    found = changed(site, before)
    assert said(found) == ["packages_changed"]
    assert found.blocked == ()


def test_a_finder_of_setuptools_is_known_by_its_text(site: Path) -> None:
    """A file that a person's installer writes is known; the same name with another text is not."""
    before = looked(site)
    finder = site / "__editable___a_finder.py"
    (site / "a.pth").write_text(SETUPTOOLS_FINDER)
    finder.write_text("def install():\n    raise SystemExit(0)\n")
    assert said(changed(site, before)) == STEERS


# ---- what is lent ----------------------------------------------------------------------------------------------------


def test_what_comes_into_a_lent_folder_is_left_out_until_an_installer_has_written_most_of_it(tmp_path: Path) -> None:
    tools = tmp_path / "vendor/bin"
    tools.mkdir(parents=True)
    (tmp_path / "vendor/.cache").mkdir()
    for number in range(30):
        (tools / f"{number}").write_text("x")
    record = InstalledRecord(str(tmp_path / "record.json"))
    record.begin(Installed(root=str(tmp_path), lent=("vendor",)).now(), project=tmp_path)
    assert said(record.changes(project=tmp_path, programs_only=True)) == []
    (tools / "7").write_text("y")
    (tools / "new").write_text("y")
    (tmp_path / "vendor/.cache/entry").write_text("y")
    found = record.changes(project=tmp_path, programs_only=True)
    assert sorted(found.lent.values()) == ["vendor/bin/7", "vendor/bin/new"]
    assert said(found) == ["dependencies_left_out"]
    assert said(record.changes(project=tmp_path, frees=released(["vendor/**"]))) == []
    record.end(project=tmp_path)
    record.begin(Installed(root=str(tmp_path), lent=("vendor",)).now(), project=tmp_path)
    assert sorted(record.changes(project=tmp_path).lent.values()) == ["vendor/bin/7", "vendor/bin/new"]
    for number in range(20):
        (tools / f"{number}").unlink()
        (tools / f"{number}").write_text("x")
    found = record.changes(project=tmp_path)
    assert (dict(found.lent), found.renewed) == ({}, ("vendor",))


# ---- plugins ---------------------------------------------------------------------------------------------------------


def test_a_plugin_that_came_is_not_loaded(site: Path) -> None:
    before = looked(site)
    place = install(site, "pytest_odd", "1.0", {"odd_plugin.py": "raise SystemExit\n"}, plugins=PLUGIN)
    found = changed(site, before)
    assert found.blocked == ("odd",)
    assert said(found) == ["plugins_not_loaded", "packages_changed"]
    assert found.without(released([f".venv/site/{place.name}"])).blocked == ()


def test_a_plugin_of_a_known_name_rejects(site: Path) -> None:
    before = looked(site)
    install(site, "pytest_odd", "1.0", {"odd_plugin.py": ""}, plugins="[pytest11]\nknown = odd_plugin\n")
    found = changed(site, before)
    assert said(found)[0] == "environment_changed"
    assert "takes the place of the plugin known" in found.findings[0].message


# ---- from one session to the next ------------------------------------------------------------------------------------


def record_of(site: Path) -> InstalledRecord:
    return InstalledRecord(str(site.parents[2] / "installed.json"))


def test_a_change_does_not_become_normal_by_waiting(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    before = record.begin(looked(site), project=project)
    (site / "_pytest/runner.py").write_text("x = 2\n")
    install(site, "pytest_odd", "1.0", {"odd_plugin.py": ""}, plugins=PLUGIN)
    install(site, "httpx", "1.0", {"httpx/__init__.py": "x = 1\n"})
    record.end(before, project=project)
    later = record.begin(looked(site), project=project)
    found = differences(later, later.now(), project=project)
    assert said(found) == STEERS
    assert found.blocked == ("odd",)  # told of once
    (site / "_pytest/runner.py").write_text("x = 1\n")
    assert said(changed(site, later)) == []


def test_a_session_that_was_killed_left_what_is_there_now(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    record.begin(looked(site), project=project)
    (site / "sitecustomize.py").write_text("x = 2\n")
    later = record.before(looked(site), project=project)
    assert said(differences(later, looked(site), project=project)) == STEERS


@pytest.mark.parametrize("is_open", [True, False])
def test_a_session_in_a_sandbox_knows_what_one_without_could_change(site: Path, is_open: bool) -> None:
    record, project = record_of(site), site.parents[1]
    wide = looked(site)
    narrow = replace(wide, closed=(str(site), str(site.parent)))
    before = record.begin(wide, project=project)
    if not is_open:
        (site / "_pytest/runner.py").write_text("x = 2\n")
        record.end(before, project=project)
    later = record.begin(narrow.now(), project=project)
    assert said(changed(site, later)) == ([] if is_open else STEERS)
    record.end(later, project=project)
    assert said(changed(site, record.begin(narrow.now(), project=project))) == ([] if is_open else STEERS)


def test_a_session_that_was_killed_without_a_sandbox_is_looked_at_whole(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    record.begin(looked(site), project=project)
    (site / "_pytest/runner.py").write_text("x = 2\n")
    narrow = replace(looked(site), closed=(str(site), str(site.parent))).now()
    assert said(changed(site, record.begin(narrow, project=project))) == STEERS


def test_what_a_person_does_between_sessions_counts(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    before = record.begin(looked(site), project=project)
    install(site, "pluggy", "1.7.0", {"pluggy/__init__.py": "x = 2\n"})
    record.end(before, project=project)
    assert said(differences(record.before(looked(site), project=project), looked(site), project=project))
    install(site, "pluggy", "1.7.0", {"pluggy/__init__.py": "x = 2\n"})  # installed once more, by a person
    install(site, "pytest", "9.0.0", {"_pytest/runner.py": "x = 9\n", "_pytest/__init__.py": ""})
    assert said(differences(record.before(looked(site), project=project), looked(site), project=project)) == []


def test_what_a_person_has_released_is_known(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    before = record.begin(looked(site), project=project)
    install(site, "pytest_odd", "1.0", {"odd_plugin.py": ""}, plugins=PLUGIN)
    record.end(before, project=project, frees=released([".venv/site/pytest_odd-1.0.dist-info"]))
    later = record.before(looked(site), project=project)
    assert changed(site, later).blocked == ()


def test_a_session_that_changed_nothing_is_left_open_for_the_next_one(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    assert not record.goes_on(looked(site))
    record.begin(looked(site), project=project)
    assert not record.goes_on(looked(site))  # nobody has looked since
    assert said(record.changes(project=project)) == []
    assert record.is_unchanged
    assert not record.goes_on(replace(looked(site), programs=("another",)))
    assert record.goes_on(looked(site))
    assert not record.is_unchanged
    (site / "sitecustomize.py").write_text("x = 2\n")  # by the judgement of the first, or in the second
    later = InstalledRecord(record.path).before(looked(site), project=project)  # of a process after a kill
    assert said(differences(later, looked(site), project=project)) == STEERS
    assert said(record.changes(project=project)) == STEERS
    assert not record.goes_on(looked(site))
    record.end(project=project)
    assert not record.is_open
    assert said(record.changes(project=project)) == STEERS


def test_a_place_that_looks_later_compares_with_the_first_look_of_its_run(site: Path, tmp_path: Path) -> None:
    """A change released by a person in one of them counts in all of them; another run has a new first look."""

    def record(place: str, run: str = "run") -> InstalledRecord:
        first = FirstLook(str(tmp_path / "first.json"), run, str(tmp_path / place))
        return InstalledRecord(str(tmp_path / f"{place}.json"), first)

    one, two = record("w1"), record("w2")
    one.begin(looked(site), project=tmp_path / "w1")
    (site / "sitecustomize.py").write_text("x = 1\n")
    (site / "pluggy/__init__.py").write_text("x = 2\n")
    install(site, "pytest_odd", "1.0", {"odd_plugin.py": ""}, plugins=PLUGIN)
    two.begin(looked(site), project=tmp_path / "w2")
    found = two.changes(project=tmp_path / "w2")
    assert sorted(Path(each.path).name for each in found.steering.values()) == ["__init__.py", "sitecustomize.py"]
    assert found.blocked == ("odd",)
    assert not record("w3", "another").begin(looked(site), project=tmp_path / "w3").left
    assert not record("w3", "another").changes(project=tmp_path / "w3").steering


def test_what_a_person_has_released_in_one_place_counts_in_all_of_them(site: Path, tmp_path: Path) -> None:
    def record(place: str) -> InstalledRecord:
        first = FirstLook(str(tmp_path / "first.json"), "run", str(tmp_path / place))
        return InstalledRecord(str(tmp_path / f"{place}.json"), first)

    one = record("w1")
    one.begin(looked(site), project=tmp_path / "w1")
    (site / "sitecustomize.py").write_text("x = 1\n")
    one.end(project=tmp_path / "w1", frees=released([str(site / "sitecustomize.py")]))
    two = record("w2")
    two.begin(looked(site), project=tmp_path / "w2")
    assert not two.changes(project=tmp_path / "w2").steering


def test_what_lies_in_a_place_is_its_own(site: Path, tmp_path: Path) -> None:
    def record(place: Path) -> InstalledRecord:
        return InstalledRecord(str(tmp_path / "w.json"), FirstLook(str(tmp_path / "first.json"), "run", str(place)))

    place = tmp_path / "project"
    record(place).begin(looked(site), project=place)
    record(place).end(project=place)
    (site / "sitecustomize.py").write_text("x = 1\n")
    one = record(place)
    one.begin(looked(site), project=place)
    assert not one.changes(project=place).steering


def test_another_process_of_the_run_goes_on_where_a_session_has_ended_just_now(site: Path) -> None:
    record, project, path = record_of(site), site.parents[1], site.parents[2] / "installed.json"
    record.begin(looked(site), project=project)
    record.end(project=project, by="hands-1")
    assert not InstalledRecord(record.path).goes_on(looked(site))
    assert not InstalledRecord(record.path).goes_on(looked(site), "hands-2")
    (site / "sitecustomize.py").write_text("x = 2\n")  # between the two, when nobody but an agent was there
    later = InstalledRecord(record.path)
    assert later.goes_on(looked(site), "hands-1")
    assert json.loads(path.read_text())["open"] is True
    assert said(later.changes(project=project)) == STEERS
    later.end(project=project, by="hands-1")
    assert not InstalledRecord(record.path).goes_on(looked(site), "hands-1")  # there is a change to be told of
    (site / "sitecustomize.py").unlink()
    record.begin(looked(site), project=project)
    record.end(project=project, by="hands-1")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"at": time.time() - 100}))
    assert record.places() is not None
    assert not InstalledRecord(record.path).goes_on(looked(site), "hands-1")


def test_a_session_that_is_left_open_is_gone_on_with_by_the_next_process_of_its_run_until_it_is_closed(
    site: Path,
) -> None:
    record, project, path = record_of(site), site.parents[1], site.parents[2] / "installed.json"
    record.begin(looked(site), project=project, by="hands-1")
    assert not record.leave()  # nobody has looked since
    assert said(record.changes(project=project)) == []
    assert record.leave()
    assert not record.is_open
    written = path.read_bytes()
    assert not InstalledRecord(record.path).goes_on(looked(site), "hands-2")
    (site / "sitecustomize.py").write_text("x = 2\n")  # by the proof of that session, which runs what the agent wrote
    later = InstalledRecord(record.path)
    assert later.goes_on(looked(site), "hands-1")
    assert path.read_bytes() == written
    assert said(later.changes(project=project)) == STEERS
    assert not later.leave()
    later.end(project=project, by="hands-1")
    (site / "sitecustomize.py").unlink()
    record.begin(looked(site), project=project, by="hands-1")
    record.changes(project=project)
    assert record.leave()
    long_ago = time.time() - 100
    os.utime(path, (long_ago, long_ago))
    assert not InstalledRecord(record.path).goes_on(looked(site), "hands-1")
    InstalledRecord(record.path).close(project=project)
    (site / "sitecustomize.py").write_text("x = 3\n")  # by a person
    record = InstalledRecord(record.path)
    record.begin(looked(site), project=project)
    assert said(record.changes(project=project)) == []


def test_a_look_at_the_programs_alone(site: Path) -> None:
    record, project = record_of(site), site.parents[1]
    record.begin(looked(site), project=project)
    (site / "sitecustomize.py").write_text("x = 2\n")
    assert said(record.changes(project=project, programs_only=True)) == []
    (site.parent / "early").mkdir()
    (site.parent / "early/git").symlink_to("/bin/true")
    assert said(record.changes(project=project, programs_only=True)) == STEERS
    record.end(project=project)
    assert len(record.changes(project=project, programs_only=True).steering) > 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("[ -e a.txt ] && ! test -e b", False),
        ("sh check.sh", False),
        ("sh other.sh", True),
        ("make test", True),
        ("./tool", True),
        ("test -e a & pytest -q", True),
        ('test "$(python3.12 x)" = 1', True),
        ("poetry run check", True),
        ("sh missing.sh", False),
    ],
)
def test_a_check_that_starts_an_interpreter(tmp_path: Path, command: str, expected: bool) -> None:
    (tmp_path / "check.sh").write_text("grep -q x out.txt\n")
    (tmp_path / "other.sh").write_text("sh third.sh\n")
    (tmp_path / "third.sh").write_text("exec python3 -m app\n")
    (tmp_path / "Makefile").write_text("test:\n\t.venv/bin/pytest\n")
    (tmp_path / "tool").write_text("#!/usr/bin/python3\n")
    (tmp_path / "tool").chmod(0o755)
    assert starts_python(command, str(tmp_path)) is expected


def test_what_no_agent_can_change_is_not_looked_at(site: Path, tmp_path: Path) -> None:
    """An environment in the project is open to an agent in a sandbox; an installed one is not, nor one on the PATH."""
    inside = looked(site).interpreters[0]
    installed = replace(inside, executable="/usr/bin/python3", prefix="/usr", sites=("/usr/lib/python3/dist-packages",))
    project = site.parents[1]

    def open_to(*found: Interpreter | None, confined: bool) -> list[Interpreter]:
        return [*places(found, (), root=str(project), settings=AUTO, confined=confined, search="").interpreters]

    assert open_to(inside, installed, None, inside, confined=False) == [inside, installed]
    found = open_to(inside, installed, confined=True)
    assert found == ([inside, installed] if kind_for(AUTO) is None else [inside])


def test_what_a_link_that_an_agent_can_replace_leads_to_is_looked_at(site: Path) -> None:
    """If the environment in the project is a link, the sandbox keeps its target, and not the link."""
    project = site.parents[1]
    (project / "linked").symlink_to("/usr")
    inside = replace(
        looked(site).interpreters[0],
        executable=f"{project}/linked/bin/python3",
        prefix=f"{project}/linked",
        sites=(f"{project}/linked/lib/python3/dist-packages",),
    )
    found = places([inside], (), root=str(project), settings=AUTO, confined=True, search="")
    assert (found.interpreters, found.closed) == ((inside,), ())


@pytest.mark.skipif(kind_for(AUTO) is None, reason="nothing keeps an agent from writing")
def test_of_an_interpreter_only_what_an_agent_can_write_is_looked_at(site: Path, tmp_path: Path) -> None:
    """A folder of packages in the project, of an installed interpreter whose other folders the sandbox keeps."""
    closed = ("/usr/bin/python3", "/usr", "/usr/lib/python3/dist-packages")
    sites = (str(site), closed[2])
    python = replace(looked(site).interpreters[0], executable=closed[0], prefix=closed[1], sites=sites)
    found = places([python], ["git"], root=str(site.parents[1]), settings=AUTO, confined=True, search="/usr/bin")
    assert (found.interpreters, found.closed, found.programs) == ((python,), closed, ())
    entries = found.now().entries
    assert f"{site}/_pytest/runner.py" in entries
    assert not any(key.startswith("/usr/") for key in entries)
    early = places(
        [], ["git"], root=str(site.parents[1]), settings=AUTO, confined=True, search=f"{site.parent}/early:/usr/bin"
    )
    assert early.programs == ("git",)


def test_of_an_environment_outside_of_the_project_what_steers_each_run_is_looked_at(site: Path) -> None:
    before = replace(looked(site), root="/elsewhere").now()
    (site / "requests/__init__.py").write_text("x = 2\n")
    (site / "stub.py").write_text("x = 1\n")
    assert said(changed(site, before)) == []
    (site / "_pytest/runner.py").write_text("x = 2\n")
    assert said(changed(site, before)) == STEERS


def test_a_record_that_says_nothing(site: Path, tmp_path: Path) -> None:
    (tmp_path / "installed.json").write_text("[]")
    record = record_of(site)
    assert record.before(looked(site), project=tmp_path) == looked(site)
    assert record.places() is None
    record.begin(looked(site), project=tmp_path)
    kept = record.places()
    assert kept is not None
    assert kept.now().entries == looked(site).entries
    assert json.loads((tmp_path / "installed.json").read_text())["open"] is True
    InstalledRecord(None).begin(looked(site), project=tmp_path)


def test_a_record_that_is_cut_off_is_none(site: Path) -> None:
    record, project, path = record_of(site), site.parents[1], site.parents[2] / "installed.json"
    record.begin(looked(site), project=project)
    path.write_text(path.read_text()[:-20])
    assert record.places() is None


# ---- in a real environment -------------------------------------------------------------------------------------------

QUIET = "-p no:cacheprovider -p no:randomly"
SITE = Path(pytest.__file__).parent.parent


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with pytest and what it stands on."""
    place = tmp_path_factory.mktemp("environment") / ".venv"
    venv.create(place, symlinks=True)
    site = next((place / "lib").glob("python*/site-packages"))
    shutil.copy(SITE / "py.py", site)
    for name in ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        shutil.copytree(SITE / name, site / name, ignore=shutil.ignore_patterns("__pycache__"))
        for metadata in SITE.glob(f"{name}-*.dist-info"):
            shutil.copytree(metadata, site / metadata.name)
    return place


@pytest.fixture
def project(make_repo: Make, environment: Path) -> JudgedProject:
    repo = make_repo(resolved=False)
    shutil.copytree(environment, repo.root / ".venv", symlinks=True)
    repo.resolve(COMMAND)
    return repo


COMMAND = ".venv/bin/python -m pytest tests/e2e/test_add.py tests/e2e/test_sub.py"


def real_site(repo: JudgedProject) -> Path:
    return next((repo.root / ".venv/lib").glob("python*/site-packages"))


def judged(repo: JudgedProject, work: Mapping[str, str | bytes | None], **settings: Any) -> Verdict:
    return repo.judge(work, proof=COMMAND, suite=None, **settings)


ALWAYS_PASSES = """\
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    return True
"""
AWAITS = "import calc\n\n\nasync def test_sub():\n    assert calc.sub(3, 2) == 1\n"
RUNS_COROUTINES = """\
import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        asyncio.run(pyfuncitem.obj())
        return True
"""


def test_a_plugin_that_an_agent_installs_judges_nothing(project: JudgedProject) -> None:
    install(real_site(project), "pytest_odd", "1.0", {"odd_plugin.py": ALWAYS_PASSES}, plugins=PLUGIN)
    wrong = {**HONEST, "src/calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return 0\n"}
    project.put(wrong)
    assert subprocess.run(COMMAND.split(), cwd=project.root, capture_output=True, check=False).returncode == 0
    assert codes(judged(project, wrong)) in (["proof_failed"], ["plugin_needed"])


@pytest.mark.scenario
def test_a_plugin_beside_honest_work_disturbs_nobody(project: JudgedProject) -> None:
    install(real_site(project), "anyio", "4.0", {"anyio/__init__.py": "", "odd_plugin.py": ""}, plugins=PLUGIN)
    verdict = judged(project, HONEST)
    assert verdict.accepted, verdict.findings
    assert [each.code for each in verdict.findings] == ["plugins_not_loaded", "packages_changed"]


@pytest.mark.scenario
def test_work_that_needs_a_plugin_asks_a_person(project: JudgedProject) -> None:
    place = install(real_site(project), "pytest_odd", "1.0", {"odd_plugin.py": RUNS_COROUTINES}, plugins=PLUGIN)
    work = {**HONEST, "tests/e2e/test_sub.py": AWAITS}
    verdict = judged(project, work)
    assert codes(verdict) == ["plugin_needed"]
    path = str(place.relative_to(project.root))
    assert verdict.reasons[0].data["paths"] == [path]
    project.sh("git", "reset", "-q", "--hard", project.base)
    again = judged(project, work, may_change=[path])
    assert again.accepted, again.findings


def test_compiled_code_of_the_runner_is_written_again(project: JudgedProject) -> None:
    before = resolve(project.root, [COMMAND]).before
    subprocess.run([*COMMAND.split(), "--collect-only"], cwd=project.root, check=False, capture_output=True)
    found = differences(before, before.now(), project=project.root)
    assert any("/_pytest/__pycache__/" in path for path in found.compiled)
    bent = next(Path(path) for path in found.compiled if path.endswith(f"python.{sys.implementation.cache_tag}.pyc"))
    bent.write_bytes(bent.read_bytes()[:16] + b"nonsense")
    assert compiled_anew(found.compiled, before.interpreters)
    assert b"nonsense" not in bent.read_bytes()[16:24]
    assert said(found) == []


def test_a_finder_that_setuptools_has_written(project: JudgedProject) -> None:
    """The text of one is in the tests of setuptools' own users: any flat layout gets one."""
    asks = "from setuptools.command.editable_wheel import _FINDER_TEMPLATE; print(_FINDER_TEMPLATE)"
    template = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=False)
    if template.returncode:
        pytest.skip("no setuptools with editable wheels")
    site = real_site(project)
    before = project.environment.before
    (site / "a.pth").write_text(SETUPTOOLS_FINDER)
    text = template.stdout.removesuffix("\n").format(
        name="a", mapping={"calc": str(project.root / "src/calc")}, namespaces={}
    )
    (site / "__editable___a_finder.py").write_text(text)
    assert said(differences(before, before.now(), project=project.root)) == []
    (site / "__editable___a_finder.py").write_text(text + "\nprint(1)\n")
    assert said(differences(before, before.now(), project=project.root)) == STEERS


@pytest.mark.parametrize("odd", ["pipe", "device", "link"])
def test_what_is_no_file_in_place_of_the_record_is_no_record_and_is_never_followed(tmp_path: Path, odd: str) -> None:
    """A pipe would be waited at for ever, `/dev/zero` read without end, and the target of a link overwritten."""
    path, target = tmp_path / "installed.json", tmp_path / "precious"
    target.write_text("{}")
    if odd == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if odd == "device" else target)
    record = InstalledRecord(str(path))
    assert record.places() is None
    record.begin(Installed(interpreters=(), programs=(), search="", above=""), project=tmp_path)
    assert (path.is_symlink(), path.is_file(), target.read_text()) == (False, True, "{}")
    assert record.places() is not None
