"""Commands that always end: a wall-clock limit, bounded output, and nothing of them left behind.

command      ``run`` and ``start``: the front door
client       the harness's end: starts a supervisor, moves the pipes, is certain of the end
supervisor   the program between the harness and one command; stands alone
launch_spec  what a supervisor is to run, and the environment that it is given
sandbox      what agents and checks reach; confinement: how a command is made to reach no more
limits       what they may take of the machine; resource_watch: how the supervisor sees to it
orphans      ends what a supervisor could not end
output       bounded memory and logs for what a command prints
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
