"""Reading of commands, and the place of the options that make them report."""

import shlex

import pytest

from agent_harness.verification.check import parse, with_report


@pytest.mark.parametrize(
    ("text", "head", "arguments"),
    [
        ("pytest", "pytest", 1),
        ("python -m pytest tests/ -v", "python", 3),
        ("python3.12 -X dev -W error -m pytest tests", "python3.12", 7),
        (".venv/bin/python -m pytest", ".venv/bin/python", 3),
        ("poetry run pytest {test_file} -v", "poetry run pytest", 3),
        ("uv run --extra dev python -m pytest", "uv run --extra dev python", 7),
        ("uv run --with pytest --no-sync pytest tests", "uv run --with pytest --no-sync pytest", 6),
        ("coverage run -m pytest tests", "coverage", 4),
        ("timeout 60 .venv/bin/pytest tests", "timeout 60 .venv/bin/pytest", 3),
        ("env A=1 pytest -q", "pytest", 1),
        ("DEBUG=1 NAME='a b' pytest -q", "pytest", 1),
        ("pytest 'tests/test_a.py::test_x[a b]'", "pytest", 1),
        ("pytest tests/test_a.py::test_x[1-2]", "pytest", 1),
    ],
)
def test_plain_pytest_commands(text: str, head: str, arguments: int) -> None:
    command = parse(text)
    assert command.pytest
    assert shlex.join(command.head) == head
    assert command.arguments == arguments


@pytest.mark.parametrize(
    "text",
    [
        "cd app && pytest",
        "pytest | tee log",
        "pytest $ARGS",
        'pytest "$ARGS"',
        "pytest tests/*",
        "pytest 'open",
        "a\npytest",
    ],
)
def test_shell_syntax_is_left_to_a_shell(text: str) -> None:
    command = parse(text)
    assert (command.words, command.pytest) == ((), False)
    started, variables = with_report(command, (), "/r.xml", ["--junitxml=/r x.xml", "-p", "w"])
    assert started == text
    assert shlex.split(variables["PYTEST_ADDOPTS"]) == ["--junitxml=/r x.xml", "-p", "w"]


@pytest.mark.parametrize(
    "text", ["make test", "npm test", "python run_tests.py", "tox -e py", "ruff check src", "echo pytest"]
)
def test_other_commands_get_no_options(text: str) -> None:
    command = parse(text)
    assert not command.pytest
    assert with_report(command, command.words, "/r.xml", ["-p", "w"])[0] == shlex.split(text)


def test_options_come_last_but_before_a_double_dash() -> None:
    options = ["--junitxml=/r.xml"]
    for text, expected in (
        ("pytest -x tests", ["pytest", "-x", "tests", *options]),
        ("pytest -q -- -odd.py", ["pytest", "-q", *options, "--", "-odd.py"]),
    ):
        command = parse(text)
        assert with_report(command, command.words, "/r.xml", options) == (expected, {})


def test_variables_in_front_become_variables() -> None:
    command = parse("A=1 B='x y' pytest")
    assert with_report(command, command.words, "/r.xml", []) == (["pytest"], {"A": "1", "B": "x y"})


def test_the_place_of_the_report_can_be_named() -> None:
    command = parse("npx jest --outputFile {report}")
    assert command.reports_itself
    assert with_report(command, command.words, "/a b.xml", [])[0] == ["npx", "jest", "--outputFile", "/a b.xml"]
    shell = parse("npx jest > {report}")
    assert with_report(shell, (), "/a b.xml", [])[0] == "npx jest > '/a b.xml'"
