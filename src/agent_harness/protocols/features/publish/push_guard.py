"""Nothing is pushed before it is accepted: the agent's own pushes are stopped where they can be, and told of otherwise.

A guard rail: an agent that means to can push all the same, so the remotes are looked at after each session. What they
have is never taken back by force; a person decides. Source: features.md C04, S10.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.protocols.features.engine.open_session import OpenSession
from agent_harness.protocols.features.project import Project

NOWHERE = "/only-the-harness-pushes--once-it-has-accepted-the-work"
"""Where pushes of the agent go instead: git says that it is no repository, and this name says why."""

LOOK_SECONDS = 20.0
_ADDRESS = re.compile(r"remote\.(?P<name>.+)\.(?P<kind>url|pushurl)$", re.DOTALL)

Config = Mapping[str, list[str]]


def variables(config: Config) -> dict[str, str]:
    """Variables under which git, wherever the agent calls it, pushes to no remote of these settings.

    Fetching goes on; a remote with the same address for both in two settings is left as it is.
    """
    fetched = _addresses(config, "url")
    pushed = _addresses(config, "pushurl")
    rules = [(f"url.{NOWHERE}.pushInsteadOf", address) for address in sorted(fetched)]
    rules += [(f"url.{NOWHERE}.insteadOf", address) for address in sorted(pushed - fetched)]
    told = {"GIT_CONFIG_COUNT": str(len(rules))} if rules else {}
    for number, (key, value) in enumerate(rules):
        told |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return told


def _addresses(config: Config, kind: str) -> set[str]:
    found = ((_ADDRESS.match(key), values) for key, values in config.items())
    return {value for match, values in found if match and match["kind"] == kind for value in values if value}


def tips(project: Project) -> frozenset[str]:
    """What branches, tags and remotes are known to hold, as far as this repository can tell."""
    found = project.git.text("for-each-ref", "--format=%(objectname)%0a%(*objectname)")
    return frozenset(line for line in found.split() if line)


def report(project: Project, under_way: OpenSession, before: Iterable[str]) -> None:
    """Says which refs of a remote hold commits that came up in this session and that the harness did not push.

    A remote that cannot be reached says nothing.
    """
    known = frozenset(before)
    for remote in sorted({match["name"] for key in under_way.git_config if (match := _ADDRESS.match(key))}):
        for ref, commit in _refs_of(project, remote, under_way.git_config).items():
            if commit not in known and _came_up_since(project, commit, known):
                _tell(project, under_way, remote, ref, commit)


def _refs_of(project: Project, remote: str, config: Config) -> Mapping[str, str]:
    try:
        return project.git.remote_refs(remote, recorded=config, timeout_seconds=LOOK_SECONDS)
    except HarnessError:
        return {}


def _came_up_since(project: Project, commit: str, before: frozenset[str]) -> bool:
    """Whether this repository holds the commit, and nothing that was there before the session led to it."""
    if project.git.commit_of(commit) is None:
        return False
    wanted = "\n".join([commit, *(f"^{tip}" for tip in sorted(before))]) + "\n"
    found = project.git.run("rev-list", "--max-count=1", "--ignore-missing", "--stdin", input=wanted.encode())
    return bool(found.strip())


def _tell(project: Project, under_way: OpenSession, remote: str, ref: str, commit: str) -> None:
    told = (
        f"{remote} has {commit[:10]} as {ref}, which the harness did not push: it came up in Session"
        f" {under_way.session} and was not accepted when it was pushed. It is left there; look at it."
    )
    project.say(f"Warning: {told}")
    fields: dict[str, Any] = {"remote": remote, "ref": ref, "commit": commit}
    project.store.event("pushed_by_agent", "critical", session=under_way.session, message=told, **fields)
