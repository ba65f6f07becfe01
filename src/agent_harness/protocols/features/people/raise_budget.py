"""A higher budget in ``.harness.yaml``, with a person's comments and order kept, in a commit of its own (C27)."""

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import worktree
from agent_harness.protocols.features.config.file import with_value
from agent_harness.protocols.features.project import Project

KEYS = {"Session": "per_session_usd", "Feature": "per_feature_usd", "Project": "total_project_usd"}


def raise_budget(project: Project, limit: str, budget_usd: float | None) -> JsonObject:
    """Sets the budget of that name to ``budget_usd``, or to twice what it is; the settings are committed."""
    key = KEYS.get(limit, "per_session_usd")
    now = float(getattr(project.config.costs, key))
    wanted = budget_usd if budget_usd is not None else 2 * now
    if wanted <= now:
        raise UsageError(f"costs.{key} is ${now:.2f} already", hint="harness resume --choose increase --budget USD")
    path = project.layout.settings
    name = project.layout.relative(path)
    if name in worktree.dirty_paths(project.git):
        raise Refused(f"{name} has changes that are not committed", hint=f"git commit {name}")
    before = files.read_bytes(path)
    try:
        files.replace(path, with_value(before.decode("utf-8-sig"), "costs", key, wanted))
        worktree.commit_files(project.git, [name], f"harness: costs.{key} raised to {wanted:g}")
    except BaseException:
        files.replace(path, before)
        raise
    project.say(f"costs.{key}: ${now:.2f} → ${wanted:.2f}")
    project.store.event("budget_raised", "critical", key=f"costs.{key}", before=now, after=wanted)
    return {"key": f"costs.{key}", "before": now, "after": wanted}
