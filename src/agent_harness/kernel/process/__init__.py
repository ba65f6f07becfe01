"""Commands that always end: a wall-clock limit, bounded output, and nothing of them left behind.

command      ``run`` and ``start``: the public entry points
client       the harness's side: starts a supervisor, moves the pipes, ensures the end
supervisor   the program between the harness and one command; stands alone
launch_spec  the command of a supervisor, and its environment
sandbox      what agents and checks can reach; confinement: its enforcement
limits       resource limits; resource_watch: their enforcement by the supervisor
orphans      ends processes that a supervisor could not end
output       bounded memory and logs for a command's output
"""

from agent_harness.kernel.process.command import (
    Completed,
    Running,
    end_orphans,
    exit_status,
    new_run_id,
    run,
    scrubbed_environment,
    start,
)

__all__ = ["Completed", "Running", "end_orphans", "exit_status", "new_run_id", "run", "scrubbed_environment", "start"]
