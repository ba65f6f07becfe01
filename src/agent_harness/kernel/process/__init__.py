"""Commands that always end: with a time limit, bounded output, and no processes left behind.

command       ``run`` and ``start``: the public entry points
client        the harness's side: starts a supervisor, reads and writes the pipes, ensures the end
supervisor    the stand-alone program between the harness and one command
launch_spec   the command of a supervisor, and its environment
sandbox       access rights of agents and checks; confinement enforces them
limits        resource limits; resource_watch enforces them in the supervisor
orphans       ends processes that a supervisor could not end
output        bounded memory and logs for a command's output"""

from agent_harness.kernel.process.command import Completed, Running, exit_status, new_run_id, run, start
from agent_harness.kernel.process.launch_spec import scrubbed_environment
from agent_harness.kernel.process.orphans import end_orphans

__all__ = ["Completed", "Running", "end_orphans", "exit_status", "new_run_id", "run", "scrubbed_environment", "start"]
