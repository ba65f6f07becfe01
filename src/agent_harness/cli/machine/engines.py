"""Commands for workers on other machines: ``harness worker`` and ``harness engine``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from glob import escape

import click

from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import json_option, show
from agent_harness.errors import Refused, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.engines.address import EngineAddress

__all__ = ["engine", "worker"]


def _usual_min_free_mb() -> int:
    from agent_harness.session import parallel_settings

    return int(parallel_settings.default("min_free_mb"))


@click.command(
    epilog="""\b
Examples:
  harness worker --engine temporal://10.0.0.5:7233 --remote 'git@example.org:shop/*'
  harness worker --engine temporal://127.0.0.1:7233/default?pool=big --remote /srv/git/shop.git --slots 8""",
)
@click.option("--engine", "url", required=True, envvar="HARNESS_ENGINE", metavar="URL", help="temporal://HOST:PORT.")
@click.option(
    "--remote",
    "remotes",
    cls=Several,
    metavar="PATTERN",
    help="Take jobs of projects with this git remote, such as 'git@HOST:GROUP/*'.",
)
@click.option("--exchange", metavar="DIR", help="Take jobs that arrive in this folder, which all machines share.")
@click.option(
    "--slots", type=click.IntRange(1, 256), default=4, metavar="N", help="Run at most N agents at a time. [default: 4]"
)
@click.option("--pool", metavar="NAME", help="Take the jobs of this pool. [default: the pool in the URL]")
@click.option(
    "--lth", "tasks", cls=Several, metavar="DIR", help="Run the scheduled slices (bounded sessions) of this long task."
)
@click.option("--places", metavar="DIR", help="Folder of the workspaces. [default: in the user's state folder]")
@click.option(
    "--min-free-mb",
    type=click.IntRange(0),
    default=_usual_min_free_mb,
    envvar="HARNESS_PARALLEL__MIN_FREE_MB",
    metavar="N",
    help="Start another agent only if N MiB of memory are free. [default: 2048]",
)
def worker(
    *,
    url: str,
    remotes: tuple[str, ...],
    exchange: str | None,
    slots: int,
    pool: str | None,
    tasks: tuple[str, ...],
    places: str | None,
    min_free_mb: int,
) -> int:
    """Take jobs from runs on other machines, and execute each job in a workspace on this machine.

    On SIGTERM or Ctrl-C, running jobs stop at a safe point. Their work is saved, and another worker retries the jobs.
    Anyone who can submit jobs to the Temporal namespace can run code here as this user. The worker takes only jobs
    whose git remote matches --remote.

    Exit code: 0 stopped by a signal, 2 wrong usage, 4 no server, git or extra, 5 another worker uses the folder, 130
    interrupted.
    """
    address = _address(url, pool)
    if len(address.pools) > 1:
        raise UsageError("A worker can take jobs from only one pool", hint="harness worker --pool NAME")
    if shared := exchange or address.exchange:
        shared = os.path.abspath(os.path.expanduser(shared))
        if not os.path.isdir(shared):
            raise Refused(
                f"{shared} is not a folder. The exchange folder must exist on all machines",
                hint=f"mkdir -p {shlex.quote(shared)}",
            )
        remotes += (f"{escape(shared)}/*.git",)
    if not remotes and not tasks:
        raise UsageError(
            "Give the git remotes whose jobs this worker takes", hint="--remote 'git@HOST:GROUP/*', or --exchange DIR"
        )
    long_tasks = tuple(os.path.abspath(os.path.expanduser(each)) for each in tasks)
    for each in long_tasks:
        if not os.path.isfile(os.path.join(each, "task.json")):
            raise UsageError(f"{each} is not a long task", hint=f"lth validate {each}")
    folder = os.path.abspath(os.path.expanduser(places)) if places else _own_places()
    from agent_harness.engines.temporal.worker import WorkerTerms, serve

    def say(line: str) -> None:
        from agent_harness.kernel import clock
        from agent_harness.kernel.terminal import printable

        sys.stdout.write(f"{clock.local(clock.now())} {printable(line)}\n")
        sys.stdout.flush()

    terms = WorkerTerms(
        address=address,
        remotes=remotes,
        folder=folder,
        slots=slots,
        say=say,
        min_free_mb=min_free_mb,
        long_tasks=long_tasks,
    )
    return serve(terms)


@click.group(
    epilog="Example:  harness engine check temporal://127.0.0.1:7233",
)
def engine() -> None:
    """Check the server, the workers of a pool, and the git remote."""


@engine.command(
    short_help="Check server, namespace, workers and remote.",
    epilog="""\b
Examples:
  harness engine check temporal://127.0.0.1:7233
  harness engine check 'temporal://10.0.0.5:7233/default?pool=big&remote=origin' --json""",
)
@click.argument("url", envvar="HARNESS_ENGINE")
@click.option("--exchange", metavar="DIR", help="Use this folder, which all machines share, instead of a git remote.")
@json_option
def check(url: str, exchange: str | None, as_json: bool) -> int:
    """Connect to the server and list its workers. Push and delete a test ref on the git remote of this project.

    Exit code: 0 everything that a run needs was found, 2 the address is invalid, 4 something is missing.
    """
    from agent_harness.engines.address import with_exchange

    address = _address(url if exchange is None else with_exchange(url, exchange), None)
    from agent_harness.engines.temporal.check import looked_at

    found = looked_at(address, os.getcwd())
    if as_json:
        click.echo(json.dumps(found))
    else:
        for row in found["checks"]:
            show(f"{'ok ' if row['ok'] else 'NOT'}  {row['what']}: {row['told']}")
    sys.stdout.flush()
    return 0 if found["ok"] else 4


def _address(url: str, pool: str | None) -> EngineAddress:
    from dataclasses import replace

    from agent_harness.engines.address import address_of
    from agent_harness.engines.temporal import require_extra

    address = address_of(url)
    if address is None:
        raise UsageError("The engine 'local:' has no remote workers to check", hint="--engine temporal://HOST:PORT")
    require_extra()
    return replace(address, pool=pool) if pool else address


def _own_places() -> str:
    from agent_harness.kernel import trusted_state

    folder = trusted_state.of_user("worker")
    if folder is None:
        raise Refused("Cannot write the user's state folder", hint="name a folder: --places DIR")
    return folder
