"""A loopback model server for the api agent, which records its requests."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from agent_harness.testing.model_server import ModelServer, serve

KEY = "sk-ant-api03-0123456789abcdefABCDEF"


@contextmanager
def provider(scripts: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Return a provider that plays ``scripts``; the environment leads to it under any client name."""
    with serve(scripts) as server:
        point_to(server, monkeypatch)
        yield server


def point_to(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")


def said_to(request: Mapping[str, Any]) -> str:
    """Return all text of a request to the model."""
    return json.dumps(request["body"].get("messages") or request["body"].get("input"), ensure_ascii=False)
