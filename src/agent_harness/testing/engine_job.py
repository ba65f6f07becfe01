"""Executor of jobs for the checks of an engine. It does not depend on a protocol.

A job's ``inputs`` describe its work. ``append`` is a file that gets one line at each start of the job. ``file`` and
``content`` are a file to commit. ``seconds`` is the time to wait. ``log_bytes`` is the size of the log to write."""

import sys
import time
from pathlib import Path

from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.items import ACCEPTED, Job
from agent_harness.parallel.workspaces import Workspace


def execute(workspace: Workspace, job: Job, folder: str) -> JsonObject:
    inputs = job.inputs
    if begun := inputs.get("append"):
        with Path(begun).open("a") as log:
            log.write(f"{job.id}\n")
    if name := inputs.get("file"):
        Path(workspace.folder, name).write_text(str(inputs.get("content") or ""))
    if count := int(inputs.get("log_bytes") or 0):
        Path(folder, "logs").mkdir(exist_ok=True)
        Path(folder, "logs", "long.txt").write_text("a line of a log\n" * (count // 16))
    sys.stdout.write("at work\n")
    sys.stdout.flush()
    time.sleep(float(inputs.get("seconds") or 0.0))
    commit = job.base
    if name:
        workspace.git.run("add", "--", name)
        commit = workspace.git.commit_tree(workspace.git.run("write-tree").decode().strip(), [job.base], f"Made {name}")
    return {"status": ACCEPTED, "commit": commit, "message": "made", "cost_usd": 0.0, "logs": f"{folder}/logs"}
