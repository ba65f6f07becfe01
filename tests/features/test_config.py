"""Settings of a feature project: defaults, sources, faults in words, commands."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_harness.errors import ConfigurationError
from agent_harness.protocols.features import config
from agent_harness.protocols.features.config import commands

NOTHING: Mapping[str, str] = {"PATH": "/nowhere"}


def load(root: Path, text: str = "project: {name: calc}\n", environ: Mapping[str, str] = NOTHING) -> config.Config:
    (root / ".harness.yaml").write_text(text, encoding="utf-8")
    return config.load(root, environ)


def refused(root: Path, text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(root, text)
    assert caught.value.exit_code == 3
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def program(folder: Path, name: str) -> Mapping[str, str]:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


DEFAULTS: dict[str, Any] = {
    "project.github_repo": None,
    "environment.init": "./init.sh",
    "environment.reset": "./reset.sh",
    "environment.health_check": None,
    "environment.stop": None,
    "testing.sanity.health": None,
    "testing.sanity.lint": None,
    "testing.sanity.type_check": None,
    "testing.unit": "python3 -m pytest tests/unit -x",
    "testing.e2e": "python3 -m pytest tests/e2e -x",
    "testing.full": "python3 -m pytest tests/ -v",
    "testing.feature": "python3 -m pytest {test_file} -v",
    "costs.per_session_usd": 10.0,
    "costs.per_feature_usd": 25.0,
    "costs.total_project_usd": 200.0,
    "models.default": "claude-sonnet-4",
    "models.initializer": "claude-sonnet-4",
    "models.coding": "claude-sonnet-4",
    "models.continuation": "claude-sonnet-4",
    "models.cleanup": "claude-haiku-3",
    "context.window_tokens": 200000,
    "context.warn_threshold": 0.75,
    "context.force_threshold": 0.90,
    "context.on_limit.auto_commit": True,
    "context.on_limit.commit_message_prefix": "WIP: Context limit - ",
    "context.on_limit.append_to_progress": True,
    "progress.check_interval_tokens": 50000,
    "progress.stuck_warning": "You appear stuck. Consider a different approach.",
    "progress.force_stop_after_stuck_checks": 2,
    "progress.force_stop_message": "Still stuck. Documenting current state and stopping. Please describe what's "
    "blocking you in claude-progress.txt.",
    "progress.max_repeated_errors": 5,
    "progress.repeated_error_message": "You've hit the same error 5 times. This approach isn't working. Try something "
    "fundamentally different.",
    "quality.lint_command": None,
    "quality.max_file_lines": 500,
    "quality.cleanup_interval": 10,
    "quality.warn_on_lint_errors": True,
    "verification.require_evidence": True,
    "verification.harness_verify": True,
    "verification.max_features_per_session": 1,
    "verification.regression_check": True,
    "sandbox.mode": "auto",
    "sandbox.network": "auto",
    "sandbox.memory": "80%",
    "sandbox.processes": "auto",
    "sandbox.free_disk": "256 MiB",
    "sandbox.writable": (),
    "verification.isolation": "worktree",
    "verification.links": (),
    "verification.timeout_minutes": 30.0,
    "verification.fix_rounds": 3,
    "verification.built_already": "ask",
    "verification.report": None,
    "verification.trust": "normal",
    "review.agent": None,
    "review.max_minutes": 10.0,
    "review.max_cost_usd": 1.0,
    "review.on_objection": "tell",
    "report.after_run": False,
    "features.max_verification_steps": 7,
    "features.max_stuck_sessions": 3,
    "features.max_starts": 200,
    "features.require_test_file": True,
    "github.repo": None,
    "github.sync_mode": "mirror",
    "github.sync_on_session_end": True,
    "github.create_missing_issues": True,
    "github.close_on_verify": True,
    "github.on_sync_failure": "warn",
    "git.push": "auto",
    "git.on_dirty": "stash",
    "logging.level": "important",
    "logging.retention_days": 90,
    "logging.structured_agent_output": True,
    "logging.require_prefixes": False,
    "logging.fallback_tracking": True,
    "logging.warn_on_missing_prefixes": True,
    "paths.features": "features.json",
    "paths.progress": "claude-progress.txt",
    "paths.state_dir": ".harness",
    "tools.filesystem.enabled": True,
    "tools.filesystem.allowed_paths": (".",),
    "tools.filesystem.denied_paths": (".harness/", ".git/", "../"),
    "tools.shell.enabled": True,
    "tools.shell.timeout_seconds": 300,
    "tools.shell.denied_commands": ("rm -rf /", "sudo", "> /dev/"),
    "tools.mcp_servers.puppeteer.enabled": False,
    "tools.mcp_servers.puppeteer.command": "npx",
    "tools.mcp_servers.puppeteer.args": ("-y", "@playwright/mcp@latest"),
    "tools.mcp_servers.puppeteer.env": {},
    "tools.mcp_servers.puppeteer.config.headless": True,
    "tools.mcp_servers.puppeteer.config.viewport.width": 1280,
    "tools.mcp_servers.puppeteer.config.viewport.height": 720,
    "tools.mcp_servers.puppeteer.config.screenshots_dir": ".harness/screenshots",
    "tools.mcp_servers.postgres.enabled": False,
    "tools.mcp_servers.postgres.command": "uvx",
    "tools.mcp_servers.postgres.args": ("postgres-mcp",),
    "tools.mcp_servers.postgres.env": {},
    "tools.mcp_servers.postgres.config.connection_string": "${DATABASE_URL}",
    "tools.mcp_servers.postgres.config.read_only": True,
    "session.timeout_minutes": 60.0,
    "session.timeout_warning_minutes": 50.0,
    "session.response_seconds": None,
    "session.on_timeout.auto_commit": True,
    "session.on_timeout.message_prefix": "WIP: Session timeout - ",
    "preflight.checks.working_directory": True,
    "preflight.checks.harness_files": True,
    "preflight.checks.git_state": True,
    "preflight.checks.environment": True,
    "preflight.checks.baseline_tests": True,
    "preflight.checks.budget": True,
    "preflight.on_failure.auto_reset": True,
    "preflight.on_failure.max_reset_attempts": 2,
    "compatibility.on_older_state": "migrate",
    "compatibility.on_newer_state": "abort",
    "compatibility.backup_before_migrate": True,
    "checkpoints.max_age_days": 7,
    "checkpoints.keep_per_feature": 5,
    "maintenance.interval_minutes": 60.0,
    "parallel.workers": 1,
    "parallel.batch_max": 8,
    "parallel.test_runs": 0,
    "parallel.window": 0,
    "parallel.mends": 2,
    "parallel.lend": True,
    "parallel.links": (),
    "parallel.refs": "refs/harness",
    "parallel.copy": (),
    "parallel.union": (),
    "parallel.setup": None,
    "parallel.setup_key": (),
    "parallel.setup_minutes": 10,
    "parallel.teardown": None,
    "parallel.fresh": False,
    "parallel.ports": 20,
    "parallel.min_free_mb": 2048,
    "agent": None,
}


def test_every_key_has_its_default(tmp_path: Path) -> None:
    found = {key: value for key, value, source in load(tmp_path).rows() if source == "default"}
    assert found == DEFAULTS


def test_sections_are_attributes_and_frozen(tmp_path: Path) -> None:
    settings_ = load(tmp_path)
    assert settings_.project.name == "calc"
    assert settings_.testing.sanity.health is None
    assert settings_.tools.mcp_servers["puppeteer"].enabled is False
    assert settings_.models.for_prompt("cleanup") == "claude-haiku-3"
    with pytest.raises(ValueError, match="frozen"):
        settings_.costs.per_session_usd = 1.0  # type: ignore[misc]


def test_sources_file_environment_flag(tmp_path: Path) -> None:
    (tmp_path / ".harness.yaml").write_text("project: {name: calc}\ncosts: {per_session_usd: 1, per_feature_usd: 2}\n")
    environ = {**NOTHING, "HARNESS_COSTS__PER_FEATURE_USD": "3.5", "HARNESS_AGENT": "scripted:x", "HARNESS_X": "y"}
    settings_ = config.load(tmp_path, environ, flags={"session.timeout_minutes": 5, "git.push": "never"})
    assert (settings_.costs.per_session_usd, settings_.origin("costs.per_session_usd")) == (1.0, "file")
    assert (settings_.costs.per_feature_usd, settings_.origin("costs.per_feature_usd")) == (3.5, "environment")
    assert (settings_.git.push, settings_.origin("git.push")) == ("never", "flag")
    assert settings_.origin("costs.total_project_usd") == "default"
    assert settings_.origin("costs") == "environment"
    assert settings_.raw["costs"] == {"per_session_usd": 1, "per_feature_usd": 2}
    with pytest.raises(KeyError):
        settings_.origin("costs.nothing")


def test_a_wrong_environment_value_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"HARNESS_COSTS__PER_SESSION_USD: costs\.per_session_usd must be a numb"
    ):
        load(tmp_path, environ={**NOTHING, "HARNESS_COSTS__PER_SESSION_USD": "much"})


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", None, "project.name is missing"),
        ("project:\n", 1, "project"),
        ("project:\n  github_repo: a/b\n", 1, "project.name is missing"),
        ("project: {name: ''}\n", 1, "must be one line of text"),
        ("project: {name: a}\ncosts:\n  per_session_usd: much\n", 3, "costs.per_session_usd must be a number"),
        ("project: {name: a}\ncosts:\n  per_session_usd: -1\n", 3, "must be at least 0"),
        ("project: {name: a}\ncosts:\n  per_session_usd: .inf\n", 3, "finite"),
        (
            "project: {name: a}\nverification:\n\n  isolation: tree\n",
            4,
            "must be 'worktree' or 'in_place' (it is 'tree')",
        ),
        ("project: {name: a}\nverification:\n  links: .venv\n", 3, "must be a list"),
        ("project: {name: a}\nverification:\n  links:\n    - ok\n    - ../x\n", 3, "verification.links.1 must be"),
        ("project: {name: a}\nverification: {fix_rounds: 1.5}\n", 2, "must be a whole number"),
        ("project: {name: a}\nverification: {fix_rounds: true}\n", 2, "must be a whole number"),
        ("project: {name: a}\nverification: {regression_check: maybe}\n", 2, "must be true or false"),
        ("project: {name: a}\ntesting: pytest\n", 2, "testing must be a section"),
        ("project: {name: a}\ntesting:\n  feature: make test\n", 3, "must contain {test_file}"),
        ("project: {name: a}\ntesting:\n  feature: sh -c 'pytest {test_file} -v'\n", 3, "outside of quotes"),
        ("project: {name: a}\npaths: {features: /etc/x}\n", 2, "must be a path inside the project"),
        ("project: {name: a}\npaths: {state_dir: .git}\n", 2, "not .git"),
        ("project: {name: a}\ncontext: {warn_threshold: 0.95}\n", 2, "warn_threshold must be below force_threshold"),
        ("project: {name: 12}\n", 1, "must be text"),
        ("project: {name: a}\nsandbox: {memory: much}\n", 2, "must be an amount such as `4 GiB` or `50%`"),
        ("project: {name: a}\nsandbox: {memory: 4}\n", 2, "must be at least 64 MiB"),
        ("project: {name: a}\nsandbox:\n  processes: -1\n", 3, "must be a number of processes"),
        ("project: {name: a}\nsandbox: {free_disk: [1]}\n", 2, "must be an amount"),
        ("- a\n- b\n", 1, "sections"),
        ("project: {name: a\n", 2, ".harness.yaml:2: "),
        ("project: {name: a}\nproject: {name: b}\n", 2, "found duplicate key"),
        ("a: 1\n\tb: 2\n", 2, ".harness.yaml:2: "),
        ("a: &x {b: *x}\n", None, ".harness.yaml"),
        ("%YAML 9.9\n--- !!python/object:os.system x\n", None, ".harness.yaml"),
        ("x: " + "[" * 5000, None, ".harness.yaml"),
    ],
)
def test_faults_name_file_line_and_key(tmp_path: Path, text: str, line: int | None, said: str) -> None:
    error = refused(tmp_path, text)
    assert said in error.message
    assert error.message.startswith(f".harness.yaml:{line}: " if line else ".harness.yaml")
    assert error.data["line"] == line or line is None


def test_limits_of_the_machine(tmp_path: Path) -> None:
    text = "project: {name: a}\nsandbox: {memory: 2 GiB, processes: off, free_disk: 1000000}\n"
    found = load(tmp_path, text).sandbox.settings()
    assert (found.memory, found.processes, found.free_disk) == (2 << 30, 0, 1_000_000)
    usual = load(tmp_path, "project: {name: a}\nsandbox: off\n").sandbox.settings()
    assert usual.mode == "off"
    assert usual.memory
    assert usual.processes


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    assert "too many values" in refused(tmp_path, "\n".join(rows)).message


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.harness\.yaml is missing"):
        config.load(tmp_path, NOTHING)
    (tmp_path / ".harness.yaml").write_bytes(b"project:\n  name: \xff\n")
    with pytest.raises(ConfigurationError, match=r"\.harness\.yaml:2: it is not UTF-8"):
        config.load(tmp_path, NOTHING)
    (tmp_path / ".harness.yaml").unlink()
    (tmp_path / ".harness.yaml").mkdir()
    with pytest.raises(ConfigurationError, match="not a regular file"):
        config.load(tmp_path, NOTHING)
    (tmp_path / ".harness.yaml").rmdir()
    os.mkfifo(tmp_path / ".harness.yaml")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        config.load(tmp_path, NOTHING)


def test_several_faults_are_counted(tmp_path: Path) -> None:
    error = refused(tmp_path, "project: {name: 1}\ncosts: {per_session_usd: x}\ngit: {push: y}\n")
    assert error.message.endswith("(and 2 more)")
    assert len(error.data["problems"]) == 3  # type: ignore[arg-type]


def test_unknown_keys_are_warnings_with_a_suggestion(tmp_path: Path) -> None:
    settings_ = load(
        tmp_path,
        "project: {name: a}\ntesting:\n  ful: x\nverfication: {isolation: in_place}\nzzz: 1\ntimeout_minutes: 5\n",
        {**NOTHING, "HARNESS_COSTS__PER_SESION_USD": "4"},
    )
    assert settings_.warnings == (
        ".harness.yaml:4: unknown key 'verfication'; did you mean 'verification'?",
        ".harness.yaml:5: unknown key 'zzz'",
        ".harness.yaml:6: unknown key 'timeout_minutes'; did you mean 'session.timeout_minutes'?",
        ".harness.yaml:3: unknown key 'testing.ful'; did you mean 'testing.full'?",
        "HARNESS_COSTS__PER_SESION_USD: unknown key 'costs.per_sesion_usd'; did you mean 'costs.per_session_usd'?",
    )
    assert settings_.raw["zzz"] == 1
    assert not any("zzz" in key for key, _, _ in settings_.rows())


def test_open_mappings_are_kept_without_warnings(tmp_path: Path) -> None:
    settings_ = load(
        tmp_path,
        "project: {name: a}\nagent: {kind: command, command: [python3, agent.py], own: {x: 1}}\n"
        "tools:\n  mcp_servers:\n    puppeteer: {enabled: yes}\n    mine: {command: run, config: {deep: {y: 2}}}\n",
    )
    assert settings_.agent == {"kind": "command", "command": ["python3", "agent.py"], "own": {"x": 1}}
    assert settings_.tools.mcp_servers["puppeteer"].enabled is True
    assert settings_.tools.mcp_servers["puppeteer"].command == "npx"
    assert settings_.tools.mcp_servers["mine"].config == {"deep": {"y": 2}}
    assert set(settings_.tools.mcp_servers) == {"puppeteer", "postgres", "mine"}
    assert settings_.warnings == ()
    assert load(tmp_path, "project: {name: a}\nagent: claude-code\n").agent == {"kind": "claude-code"}


def test_empty_values_count_as_absent(tmp_path: Path) -> None:
    settings_ = load(tmp_path, "project: {name: a}\ncosts:\ntesting:\n  full:\nenvironment:\n  init:\n  stop: ''\n")
    assert settings_.costs.per_session_usd == 10.0
    assert settings_.testing.full == "python3 -m pytest tests/ -v"
    assert settings_.environment.init == "./init.sh"
    assert settings_.environment.stop is None


def test_words_for_true_and_false(tmp_path: Path) -> None:
    settings_ = load(tmp_path, "project: {name: a}\nverification: {require_evidence: no, regression_check: On}\n")
    assert settings_.verification.require_evidence is False
    assert settings_.verification.regression_check is True


def test_the_same_setting_under_two_names(tmp_path: Path) -> None:
    """C17: each falls back to the other."""
    settings_ = load(tmp_path, "project: {name: a, github_repo: o/r}\nenvironment: {health_check: 'test -f up'}\n")
    assert settings_.testing.sanity.health == "test -f up"
    assert settings_.origin("testing.sanity.health") == "file"
    assert settings_.github.repo == "o/r"
    settings_ = load(tmp_path, "project: {name: a}\nquality: {lint_command: lint src}\n")
    assert settings_.testing.sanity.lint == "lint src"
    settings_ = load(tmp_path, "project: {name: a}\ntesting: {sanity: {lint: lint it, health: ping}}\n")
    assert settings_.quality.lint_command == "lint it"
    assert settings_.environment.health_check == "ping"


def test_models_fall_back_to_the_default_of_the_file(tmp_path: Path) -> None:
    """UAH-164, UAH-242."""
    settings_ = load(tmp_path, "project: {name: a}\nmodels: {default: big, cleanup: small}\n")
    assert [settings_.models.for_prompt(t) for t in ("initializer", "coding", "cleanup", "other")] == [
        "big",
        "big",
        "small",
        "big",
    ]


def test_messages_and_warnings_follow_their_numbers(tmp_path: Path) -> None:
    settings_ = load(
        tmp_path, "project: {name: a}\nprogress: {max_repeated_errors: 7}\nsession: {timeout_minutes: 6}\n"
    )
    assert "same error 7 times" in settings_.progress.repeated_error_message
    assert settings_.session.timeout_warning_minutes == 5


def test_poetry_and_ruff_are_used_where_they_can_run(tmp_path: Path) -> None:
    """UAH-155, UAH-159, UAH-180: a value that nobody gave is looked for, an empty text switches off."""
    (tmp_path / "pyproject.toml").write_text("[tool.poetry]\nname = 'a'\n[tool.ruff]\n")
    (tmp_path / "src").mkdir()
    bare = load(tmp_path)
    assert bare.testing.full == "python3 -m pytest tests/ -v"
    assert bare.quality.lint_command == "python3 -m ruff check src/"
    full = load(tmp_path, environ=program(tmp_path / "bin", "poetry"))
    assert full.testing.full == "poetry run pytest tests/ -v"
    assert full.testing.feature == "poetry run pytest {test_file} -v"
    assert full.quality.lint_command == "poetry run ruff check src/"
    assert full.testing.sanity.lint == "poetry run ruff check src/ --select=E,F,W"
    (tmp_path / "pyproject.toml").write_text("broken = [")
    loose = load(tmp_path, environ=program(tmp_path / "other", "ruff"))
    assert loose.quality.lint_command == "ruff check src/"
    empty = load(tmp_path, "project: {name: a}\nquality: {lint_command: }\n", program(tmp_path / "other", "ruff"))
    assert empty.quality.lint_command == "ruff check src/"
    off = load(tmp_path, "project: {name: a}\nquality: {lint_command: ''}\n", program(tmp_path / "other", "ruff"))
    assert (off.quality.lint_command, off.testing.sanity.lint) == (None, None)


@pytest.mark.parametrize(
    ("full", "feature"),
    [
        ("poetry run pytest tests/ -v", "poetry run pytest {test_file} -v"),
        ("python -m pytest tests -q", "python -m pytest {test_file} -q"),
        ("pytest ./tests/unit tests/e2e -x", "pytest {test_file} -x"),
        ("pytest", "pytest {test_file}"),
        ("uv run pytest -k 'not slow'", "uv run pytest {test_file} -k 'not slow'"),
        ("pytest --rootdir tests -q", "pytest {test_file} --rootdir tests -q"),
        ("cd . && pytest 'tests/' -v | cat", "cd . && pytest {test_file} -v | cat"),
        ("pytest tests/a && pytest tests/b", "pytest {test_file} && pytest tests/b"),
        ("pytest packages/a/tests", "pytest {test_file}"),
        ("npx vitest run tests/", "npx vitest run {test_file}"),
        ("npm test", "npm test -- {test_file}"),
        ("go test -race ./...", "go test -race ./{test_folder} -run ^{test_name}"),
        ("cargo test --offline", "cargo test --offline --test {test_name}"),
        ("cargo test -- --nocapture", None),
        ("npx vitest run", "npx vitest run {test_file}"),
        ("make test", None),
        ("./run-everything", None),
    ],
)
def test_the_feature_command_is_derived(full: str, feature: str | None) -> None:
    """UAH-160, C22."""
    assert commands.feature_command(full) == feature


def test_no_feature_command_is_one_clear_error(tmp_path: Path) -> None:
    settings_ = load(tmp_path, "project: {name: a}\ntesting: {full: make test}\n")
    assert settings_.testing.feature is None
    with pytest.raises(ConfigurationError, match=r"testing\.feature is missing"):
        settings_.test_command("tests/test_a.py")


def test_a_test_file_is_one_word(tmp_path: Path) -> None:
    settings_ = load(tmp_path)
    assert settings_.test_command("tests/test_a.py::test_b") == "python3 -m pytest tests/test_a.py::test_b -v"
    assert settings_.test_command("-x.py") == "python3 -m pytest ./-x.py -v"
    with pytest.raises(ConfigurationError):
        settings_.test_command("a\0b")
    assert settings_.test_command("") == "python3 -m pytest tests/ -v", "it names none"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
@settings(max_examples=200, deadline=None)
def test_any_file_name_stays_one_word(name: str) -> None:
    for template in ("run {test_file} -v", 'run "{test_file}" -v', "run '{test_file}' -v"):
        assert commands.quoting_problem(template) is None
        assert shlex.split(commands.with_file(template, name)) in (["run", name, "-v"], ["run", f"./{name}", "-v"])


@pytest.mark.parametrize("name", ["a b.py", "$(touch x).py", "'; touch x; '.py", "`touch x`", "a\nb", "*", "é.py"])
def test_a_shell_agrees(tmp_path: Path, name: str) -> None:
    command = commands.with_file(
        f"{shlex.quote(sys.executable)} -c 'import sys; print(repr(sys.argv[1]))' {{test_file}}", name
    )
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == f"{name!r}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_text_that_init_writes(tmp_path: Path) -> None:
    text = config.default_text(
        "my-api", full="python3 -m pytest tests/ -v", feature="python3 -m pytest {test_file} -v", lint="ruff check src/"
    )
    settings_ = load(tmp_path, text)
    assert settings_.warnings == ()
    assert settings_.project.name == "my-api"
    assert settings_.quality.lint_command == "ruff check src/"
    assert len(text.splitlines()) < 45
    assert load(tmp_path, text.replace("# agent", "agent").replace("#   ", "  ")).agent is not None
    without = config.default_text("x", full="a", feature="b {test_file}", lint=None)
    assert load(tmp_path, without).quality.lint_command is None


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
)
@settings(max_examples=100, deadline=None)
def test_any_name_and_command_survive_the_text(tmp_path_factory: pytest.TempPathFactory, name: str, full: str) -> None:
    root = tmp_path_factory.mktemp("project")
    text = config.default_text(name, full=full, feature="t {test_file}", lint="l")
    settings_ = load(root, text)
    if full.strip():
        assert settings_.testing.full == full
    if name.isprintable() and name.strip():
        assert settings_.project.name == " ".join(name.split())


def test_the_schema_is_json_and_names_every_section() -> None:
    schema: Any = json.loads(json.dumps(config.json_schema()))
    assert schema["required"] == ["project"]
    assert {key.partition(".")[0] for key in DEFAULTS} | {"project"} == set(schema["properties"])
    assert schema["$schema"].endswith("2020-12/schema")


def test_loading_needs_neither_click_nor_rich(tmp_path: Path) -> None:
    (tmp_path / ".harness.yaml").write_text("project: {name: a}\n")
    program_ = (
        "import sys\nfrom agent_harness.protocols.features import config\n"
        "assert not {'pydantic', 'ruamel.yaml'} & set(sys.modules)\n"
        f"config.load({str(tmp_path)!r})\nassert not {{'click', 'rich'}} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program_], check=True)
