"""Scripted trouble is taken by the real clients for what it stands for."""

import pytest

from agent_harness.testing.repo import Repo

from .client import Client

pytestmark = pytest.mark.client


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ({"status": 401, "message": "invalid x-api-key"}, ("invalid x-api-key", "Invalid API key")),
        ({"status": 529, "message": "Overloaded"}, ("Overloaded", "529")),
        ({"status": 429, "message": "Enough for today", "reset_seconds": 1}, ("Enough for today", "429")),
    ],
)
def test_an_error_ends_the_run(client: Client, project: Repo, error: dict[str, object], words: tuple[str, ...]) -> None:
    client.island.script("error", [{"error": error}])
    run = client.run("SCRIPT:error", project=project.path)
    assert run.exit_code == 1
    assert any(each in client.complaint(run) for each in words), run.output


def test_a_stream_that_breaks_is_never_taken_for_an_answer(client: Client, project: Repo) -> None:
    client.island.script("cut", [{"blocks": "one two three four five", "cut": True}])
    run = client.run("SCRIPT:cut", project=project.path)
    assert (run.exit_code, bool(client.complaint(run))) == (1, True), run.output


def test_tokens_are_counted_as_the_script_says(client: Client, project: Repo) -> None:
    usage = {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 70}
    client.island.script("cost", [{"blocks": {"run": "true"}, "usage": usage}, {"blocks": "Done.", "usage": usage}])
    run = client.run("SCRIPT:cost", project=project.path)
    assert client.complaint(run) == ""
    assert client.tokens(run) == {"input": 2000, "cached": 1000, "output": 140}
