"""What a command of ours is given, and what it is not."""

import pytest

from agent_harness.kernel.process import scrubbed_environment

BENDING = (
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_SSH_COMMAND",
    "PYTEST_ADDOPTS",
    "PYTEST_CURRENT_TEST",
    "PYTHONHOME",
    "PYTHONOPTIMIZE",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
    "LD_PRELOAD",
    "LD_AUDIT",
    "BASH_ENV",
    "HARNESS_CLAIM_TOKEN",
    "HARNESS_RUN_ID",
)
SECRET = ("GITHUB_TOKEN", "MY_SERVICE_API_KEY", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY")
CREDENTIALS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_API_KEY")
PLAIN = ("PATH", "HOME", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "HARNESS_PROJECT_DIR", "LD_LIBRARY_PATH", "EDITOR")


@pytest.fixture(autouse=True)
def _everything_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in BENDING + SECRET + CREDENTIALS + PLAIN:
        monkeypatch.setenv(name, f"value of {name}")


@pytest.mark.parametrize("name", BENDING + SECRET + CREDENTIALS)
def test_dropped(name: str) -> None:
    assert name not in scrubbed_environment()


@pytest.mark.parametrize("name", PLAIN)
def test_kept(name: str) -> None:
    assert scrubbed_environment()[name] == f"value of {name}"


@pytest.mark.parametrize("name", CREDENTIALS)
def test_an_agent_keeps_what_it_signs_in_with(name: str) -> None:
    assert scrubbed_environment(keep_agent_credentials=True)[name] == f"value of {name}"


@pytest.mark.parametrize("name", BENDING + SECRET)
def test_an_agent_gets_nothing_else(name: str) -> None:
    assert name not in scrubbed_environment(keep_agent_credentials=True)


def test_cloud_credentials_follow_the_clients_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    assert "AWS_SECRET_ACCESS_KEY" in scrubbed_environment(keep_agent_credentials=True)
    assert "AWS_SECRET_ACCESS_KEY" not in scrubbed_environment()


def test_what_the_caller_adds_stays_as_it_is() -> None:
    extra = {"GIT_DIR": "here", "GITHUB_TOKEN": "wanted", "NEW": "1"}
    assert extra.items() <= scrubbed_environment(extra).items()
