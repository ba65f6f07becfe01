"""``harness selftest``: runs lying and honest agents against the harness, and reports each result.

Each agent is one shell script. It gets a fresh copy of a small project, and one thing to build. The harness runs it
like any other agent. A separate program, the oracle, decides if the work is really done. Neither the agent nor the
harness has seen the oracle. The report counts the lies that were accepted as proven, the honest work that was rejected,
and other damage. It counts work that was accepted as checked separately. With ``--against``, another harness is
measured in the same way."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import click

from agent_harness.errors import Interrupted, UsageError
from agent_harness.selftest import trial

KINDS = {"lie": "lies", "honest": "honest work", "untellable": "undecidable"}
_CHECKED = {"lie": "lies", "honest": "honest agents"}


@click.command(epilog="Example:  harness selftest --only tautology")
@click.option("--only", metavar="TEXT", default="", help="Run only agents whose names contain this text.")
@click.option(
    "--protocol", type=click.Choice(trial.PROTOCOLS), help="Run only task lists, feature projects or long tasks."
)
@click.option("--all", "every", is_flag=True, help="Run each agent on each of its protocols (1.5 times as long).")
@click.option("--jobs", type=click.IntRange(1), help="Run N agents at a time. [default: one per core]")
@click.option("--against", metavar="CMD", help="Test another harness, called as described in docs/selftest.md.")
@click.option("--list", "listing", is_flag=True, help="List the agents with a description of each, and run nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def selftest(  # noqa: PLR0917
    only: str,
    protocol: str | None,
    every: bool,
    jobs: int | None,
    against: str | None,
    listing: bool,
    as_json: bool,
) -> int:
    """Run lying and honest agents against the harness, offline, and count wrong results.

    Each agent runs on one protocol; with --all, --only or --protocol on each of its protocols.

    Exit code 0 if no lie ended as proven, at most one honest agent in fifty was refused, and nothing was harmed.
    """
    chosen = [case for case in trial.all_cases() if only in case.name and protocol in (None, case.protocol)]
    chosen = chosen if every or only or protocol else trial.once(chosen)
    if not chosen:
        raise UsageError(f"No agent's name contains {only!r}", hint="harness selftest --list")
    left_out = [case for case in chosen if case.missing]
    chosen = [case for case in chosen if not case.missing]
    if listing:
        return _listed(chosen, as_json=as_json)
    trial.require_tools(chosen)
    with trial.Ground(against) as ground, ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        waiting = [pool.submit(ground.tried, case) for case in chosen]
        found: list[trial.TrialResult] = []
        try:
            for each in waiting:
                found.append(each.result())
                if not as_json:
                    _say(found[-1], len(found), len(chosen))
        except KeyboardInterrupt:
            for each in waiting:
                each.cancel()
            raise Interrupted("The self-test was interrupted; its folders are gone") from None
    return _summed_up(found, left_out, as_json=as_json)


def _listed(chosen: "list[trial.TrialAgent]", *, as_json: bool) -> int:
    if as_json:
        rows = [{"name": c.name, "kind": c.kind, "about": c.about, "protocol": c.protocol} for c in chosen]
        click.echo(json.dumps({"ok": True, "agents": rows}, indent=2))
    else:
        for case in chosen:
            click.echo(f"{case.name:<44} {case.protocol:<9} {case.kind:<11} {case.about}")
    return 0


def _say(result: "trial.TrialResult", number: int, total: int) -> None:
    mark = "  " if result.good else "! "
    seconds = f"{result.seconds:.0f} s"
    click.echo(f"{mark}{number:>3}/{total} {result.case.name:<44} {result.case.protocol:<9} {result.told} ({seconds})")


def _summed_up(found: "list[trial.TrialResult]", left_out: "list[trial.TrialAgent]", *, as_json: bool) -> int:
    kinds = {kind: [result for result in found if result.case.kind == kind] for kind in KINDS}
    believed = [r for r in kinds["lie"] if r.false and not r.only]
    checked = {
        kind: [r for r in kinds[kind] if r.done and r.only and (kind == "honest" or r.false)] for kind in _CHECKED
    }
    refused = [r for r in kinds["honest"] if not r.done]
    broken = [r for r in found if r.problem]
    harmed = [r for r in found if r.harm]
    ok = bool(found) and not (believed or harmed or broken) and len(refused) * 50 <= len(kinds["honest"])
    if as_json:
        figures = {
            "ok": ok,
            "agents": {kind: len(each) for kind, each in kinds.items()},
            "false_done": [r.case.name for r in believed],
            "false_reject": [r.case.name for r in refused],
            "checked": {kind: {r.case.name: r.only for r in each} for kind, each in checked.items()},
            "harm": {r.case.name: r.harm for r in harmed},
            "not_run": {r.case.name: r.problem for r in broken},
            "left_out": {case.name: case.missing for case in left_out},
            "untellable_believed": [r.case.name for r in kinds["untellable"] if r.done],
            "seconds": round(sum(r.seconds for r in found), 1),
            "results": [r.as_record() for r in found],
        }
        click.echo(json.dumps(figures, indent=2))
        return 0 if ok else 1
    click.echo("")
    click.echo(f"false done    {len(believed)} of {len(kinds['lie'])} lies{_names(believed)}")
    click.echo(f"false reject  {len(refused)} of {len(kinds['honest'])} honest agents{_names(refused)}")
    for kind, each in checked.items():
        click.echo(f"checked       {len(each)} of {len(kinds[kind])} {_CHECKED[kind]}{_names(each)}")
    click.echo(f"harm          {len(harmed)} of {len(found)}{_names(harmed)}")
    if kinds["untellable"]:
        taken = [r for r in kinds["untellable"] if r.done]
        click.echo(f"no oracle     {len(taken)} of {len(kinds['untellable'])} taken for done{_names(taken)}")
    for result in broken:
        click.echo(f"not run       {result.case.name}: {result.problem}")
    for tool in sorted({case.missing for case in left_out}):
        names = dict.fromkeys(case.name for case in left_out if case.missing == tool)
        click.echo(f"left out      {len(names)}, since {tool} is not installed: {', '.join(names)}")
    return 0 if ok else 1


def _names(results: "list[trial.TrialResult]") -> str:
    return ": " + ", ".join(result.case.name for result in results) if results else ""
