"""Pushing and fetching: with the user's own settings, and with the repository's only as they were recorded.

Hooks, aliases and filters stay off as in every call. What remains of the repository's settings is where its remotes
are and how they are reached, and these may name programs (``core.sshCommand``, ``credential.helper``): so they are
taken from a record that was made before an agent ran, never from the file as it is now.
"""

import os
import re
from collections.abc import Mapping, Sequence

from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.git.locate import Repository
from agent_harness.kernel.git.records import Pushed

__all__ = ["transfer"]

RECORDED = re.compile(r"(remote|branch|url|http|https|credential|ssh|push)\.|core\.(sshcommand|gitproxy|askpass)$")
"""The settings of a repository that say where and how to push."""

PROTOCOLS = "file:git:http:https:ssh"
VARIABLES = (
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS"),
    *("GIT_SSL_CAINFO", "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_SSL_NO_VERIFY"),
)
"""Variables of the harness's own environment that stay: they are the user's, and say how to reach a remote."""


def transfer(
    repository: Repository,
    words: Sequence[str],
    remote: str,
    refspecs: Sequence[str],
    *,
    recorded: Mapping[str, list[str]] | None,
    now: Mapping[str, list[str]],
    timeout_seconds: float,
) -> Pushed:
    """How ``git push`` or ``git fetch`` ended. Without a record only the remote's addresses are used, as of now."""
    addresses = re.compile(rf"remote\.{re.escape(remote)}\.(url|pushurl|fetch)$")
    source, wanted = (now, addresses) if recorded is None else (recorded, RECORDED)
    settings = [(key, value) for key, found in source.items() if wanted.match(key) for value in found]
    env = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    with IsolatedView(repository, settings=settings) as view:
        done = view.call(
            *(*words, "--end-of-options", remote, *refspecs),
            env={**env, "GIT_ALLOW_PROTOCOL": PROTOCOLS},
            check=False,
            timeout_seconds=timeout_seconds,
        )
    text = (done.stdout + done.stderr).decode("utf-8", "replace").strip()
    return Pushed(ok=done.returncode == 0, rejected="rejected]" in text, message=text)
