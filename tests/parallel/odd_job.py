"""The job of workers in the tests of their process, loaded there by its name."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.items import Job
from agent_harness.parallel.workspaces import Workspace


def execute(_place: Workspace, job: Job, _folder: str) -> JsonObject:
    """Run the job as its inputs say."""
    match job.inputs["do"]:
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            Path(job.inputs["note"]).write_text(str(left.pid))
        case "fail":
            raise ValueError("as it was told")
    told = {name: os.environ.get(name) for name in ("HARNESS_SLOT", "ONCE")}
    return {"status": "green", "process": os.getppid(), "told": told}
