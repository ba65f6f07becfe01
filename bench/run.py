"""Measures the bars of the project and prints a table; exit status 1 when one is missed.

Every bar is a ratio of two things measured in turn within one run, or a bound on one process, so that it means the same
on a fast and on a slow machine. `--only NAME` measures the rows whose name, or whose module's name, begins so; those
that take minutes are measured only so.
"""

import argparse
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One line of the table: what is measured, in which unit, and the most that it may be."""

    name: str
    most: float
    unit: str
    what: str
    long: bool = False  # takes minutes: only where it is asked for by name


BARS = (
    Bar(name="version", most=2.5, unit="x", what="`harness --version`, of `python -c pass`"),
    Bar(name="status", most=4.0, unit="x", what="`harness status`, of `python -c pass`"),
    Bar(name="task-next", most=2.5, unit="x", what="`harness task next` with 30 tasks, of `python -c pass`"),
    Bar(name="mcp", most=4.0, unit="x", what="`harness mcp` until `initialize` is answered, of `python -c pass`"),
    Bar(name="stop-10", most=1.25, unit="x", what="the Stop hook, of bare Python reading the same 10 tasks"),
    Bar(name="stop-100", most=1.25, unit="x", what="the same with 100 tasks"),
    Bar(name="stop-5000", most=1.25, unit="x", what="the same with 5,000 tasks"),
    Bar(name="claim-10", most=1.6, unit="x", what="the claim script, of bare Python reading the same 10 tasks"),
    Bar(name="claim-100", most=1.6, unit="x", what="the same with 100 tasks"),
    Bar(name="claim-5000", most=1.6, unit="x", what="the same with 5,000 tasks"),
    Bar(name="lth-validate", most=2.5, unit="x", what="`lth validate`, of `python -c pass`"),
    Bar(name="lth-next", most=2.5, unit="x", what="`lth next`, of `python -c pass`"),
    Bar(name="lth-tick", most=2.5, unit="x", what="`lth tick --dry-run`, of `python -c pass`"),
    Bar(name="lth-record", most=2.5, unit="x", what="`lth record`, of `python -c pass`"),
    Bar(name="lth-verify", most=2.5, unit="x", what="`lth verify` of a manual criterion, of `python -c pass`"),
    Bar(name="verification", most=1.4, unit="x", what="a whole verification, of one bare run of the suite"),
    Bar(name="verification-fast", most=1.1, unit="x", what="the same with `trust: fast`"),
    Bar(name="verification-quick", most=4.0, unit="x", what="a whole verification of three quick tests"),
    Bar(name="verification-fast-quick", most=2.0, unit="x", what="the same with `trust: fast`"),
    Bar(name="sandbox-check", most=30.0, unit="ms", what="how much later a command starts in the sandbox of a check"),
    Bar(name="sandbox-agent", most=30.0, unit="ms", what="the same, of an agent"),
    Bar(name="orientation", most=1.15, unit="x", what="`harness run --dry-run` after 300 sessions, of after 3"),
    Bar(name="orientation-tokens", most=1000.0, unit="", what="tokens of the summary then, with 200 features"),
    Bar(name="view-why", most=6.0, unit="x", what="`harness why` of 200 tasks, 300 sessions, of `python -c pass`"),
    Bar(name="view-costs", most=6.0, unit="x", what="`harness costs` there"),
    Bar(name="view-watch", most=12.0, unit="x", what="`harness watch --once` there"),
    Bar(name="view-report", most=24.0, unit="x", what="`harness report` there"),
    Bar(
        name="view-report-demo", most=12.0, unit="x", what="the same of a list of 7 tasks, 10 sessions, as the demo has"
    ),
    Bar(name="view-report-time", most=500.0, unit="ms", what="the page of 200 tasks, 300 sessions, once all is loaded"),
    Bar(name="view-serve", most=25.0, unit="x", what="`harness serve` there until its first page is answered"),
    Bar(name="now-write", most=1000.0, unit="us", what="what a session does now, written once"),
    Bar(name="serve-memory", most=60.0, unit="MB", what="`harness serve` of 10 such projects, all of them shown"),
    Bar(name="serve-idle", most=1.0, unit="%", what="of one core then, while one page is open and nothing changes"),
    Bar(name="view-status-line", most=4.0, unit="x", what="`harness status --line` there"),
    Bar(name="import", most=2.0, unit="s", what="`harness import` of 1,000 items, the slowest of five formats"),
    Bar(name="import-again", most=2.0, unit="s", what="the same once more, which brings nothing twice"),
    Bar(name="wire-watch", most=2000.0, unit="B", what="`harness watch` a second, at one new line a second"),
    Bar(name="wire-clock", most=100.0, unit="B", what="the same, when only the clock moves"),
    Bar(name="wire-run", most=1000.0, unit="B", what="the lines below `harness run`, at one new line a second"),
    Bar(name="look-first", most=6.0, unit="x", what="a first look at 200 items and 300 sessions, of bare `json.loads`"),
    Bar(name="look-again", most=3.4, unit="%", what="a further look with nothing new, of the first"),
    Bar(name="look-memory", most=60.0, unit="MB", what="the process that looks, at its largest"),
    Bar(name="snapshot", most=6.0, unit="x", what="checkpoint and rollback of 20,000 files, of `git status`"),
    Bar(name="git-task-complete", most=20.0, unit="", what="git processes of `harness task complete`"),
    Bar(name="git-feature-session", most=60.0, unit="", what="the same, of a session whose feature is accepted"),
    Bar(name="git-list-status", most=0.0, unit="", what="the same, of `harness status` on a task list"),
    Bar(name="git-project-status", most=0.0, unit="", what="the same, on a feature project"),
    Bar(name="serial-item", most=36.0, unit="x", what="processor of an item of `harness run`, of `python -c pass`"),
    Bar(name="serial-item-python", most=56.0, unit="x", what="the same, with proofs that start a Python"),
    Bar(name="serial-memory", most=42.0, unit="MB", what="the harness at its largest, with proofs that start a Python"),
    Bar(name="parallel-makespan", most=0.6, unit="x", what="8 tasks by 4 workers, of the same one after the other"),
    Bar(name="parallel-cpu", most=2.5, unit="x", what="processor of harness, git and checks then, of the same"),
    Bar(name="parallel-cpu-long", most=2.5, unit="x", what="the same of 32 tasks"),
    Bar(name="parallel-landing", most=0.8, unit="x", what="6 tasks that land together, of the same in batches of one"),
    Bar(name="parallel-reuse", most=0.4, unit="x", what="a place of 4,000 files that is used again, of a new one"),
    Bar(name="parallel-event", most=200.0, unit="us", what="one event of a ledger with 10,000 items, folded"),
    Bar(name="parallel-imports", most=0.0, unit="", what="modules of parallel runs in a plain `harness run`"),
    Bar(name="scale-independent", most=1.35, unit="x", what="200 tasks of 6 s by 8 workers, of the ideal", long=True),
    Bar(name="scale-conflicts", most=1.8, unit="x", what="the same, every third pair in conflict", long=True),
    Bar(name="scale-features", most=0.45, unit="x", what="24 features by 4 workers, of one after the other", long=True),
    Bar(name="scale-landing", most=0.2, unit="x", what="24 candidates that land together, of one by one", long=True),
    Bar(name="scale-landing-runs", most=0.15, unit="", what="runs of the suite an item then", long=True),
    Bar(name="scale-landing-bad", most=0.45, unit="x", what="the same with two bad ones, which are mended", long=True),
    Bar(name="scale-landing-bad-runs", most=0.45, unit="", what="runs of the suite an item then", long=True),
    Bar(name="engine-job", most=5.0, unit="x", what="an empty job over Temporal, of one here", long=True),
    Bar(name="engine-left", most=5.0, unit="s", what="a worker told to end: its job begun elsewhere", long=True),
    Bar(name="engine-killed", most=45.0, unit="s", what="a worker killed, heartbeat of 30 s: the same", long=True),
    Bar(name="engine-worker-memory", most=110.0, unit="MB", what="a worker after 300 jobs", long=True),
    Bar(name="engine-server-memory", most=300.0, unit="MB", what="the development server then", long=True),
    Bar(name="first-minute", most=180.0, unit="s", what="from a fresh machine to a first proven task", long=True),
    Bar(name="idle-memory", most=80.0, unit="MB", what="the harness while its agent sleeps"),
    Bar(name="idle-processor", most=1.0, unit="%", what="of one core, while its agent sleeps"),
    Bar(name="several-memory", most=60.0, unit="MB", what="a coordinator while its 8 agents sleep"),
    Bar(name="several-processor", most=2.0, unit="%", what="of one core, while its agents sleep"),
    Bar(name="several-worker-memory", most=80.0, unit="MB", what="the largest worker process, without the agent"),
    Bar(name="several-status", most=4.0, unit="x", what="`harness status` meanwhile, of `python -c pass`"),
    Bar(name="flood-memory", most=80.0, unit="MB", what="the harness at its largest, while its agent prints 1 GB"),
    Bar(name="flood-log", most=16.0, unit="MB", what="what that session left in the project's log folder"),
    Bar(name="history-rejected", most=5.0, unit="%", what="of honest releases that the gate rejects", long=True),
    Bar(name="history-asked", most=100.0, unit="%", what="of them about which it asks a person", long=True),
    Bar(name="history-lies", most=0.0, unit="", what="spoilt releases that the gate accepts", long=True),
)

# What measures which bars, imported on first use: the figures of one function are taken in one run.
SOURCES = {
    "startup_bench:measure": ("version", "status", "task-next", "mcp"),
    "hook_bench:stop": ("stop-10", "stop-100", "stop-5000"),
    "hook_bench:claim": ("claim-10", "claim-100", "claim-5000"),
    "lth_bench:measure": ("lth-validate", "lth-next", "lth-tick", "lth-record", "lth-verify"),
    "verification_bench:measure": ("verification", "verification-fast"),
    "verification_bench:quick": ("verification-quick", "verification-fast-quick"),
    "sandbox_bench:measure": ("sandbox-check", "sandbox-agent"),
    "orientation_bench:measure": ("orientation", "orientation-tokens"),
    "views_bench:measure": (
        *("view-why", "view-costs", "view-watch", "view-status-line"),
        *("view-report", "view-report-demo", "view-report-time", "view-serve"),
    ),
    "views_bench:writing": ("now-write",),
    "views_bench:serving": ("serve-memory", "serve-idle"),
    "import_bench:measure": ("import", "import-again"),
    "wire_bench:measure": ("wire-watch", "wire-clock", "wire-run"),
    "reader_bench:measure": ("look-first", "look-again", "look-memory"),
    "snapshot_bench:measure": ("snapshot",),
    "git_processes_bench:measure": (
        *("git-task-complete", "git-feature-session"),
        *("git-list-status", "git-project-status"),
    ),
    "serial_bench:measure": ("serial-item", "serial-item-python", "serial-memory"),
    "parallel_bench:measure": (
        *("parallel-makespan", "parallel-cpu", "parallel-cpu-long", "parallel-landing"),
        *("parallel-reuse", "parallel-event", "parallel-imports"),
    ),
    "scale_bench:independent": ("scale-independent",),
    "scale_bench:conflicts": ("scale-conflicts",),
    "scale_bench:features": ("scale-features",),
    "scale_bench:landing": (
        *("scale-landing", "scale-landing-runs"),
        *("scale-landing-bad", "scale-landing-bad-runs"),
    ),
    "engine_bench:measure": (
        *("engine-job", "engine-left", "engine-killed"),
        *("engine-worker-memory", "engine-server-memory"),
    ),
    "first_minute_bench:measure": ("first-minute",),
    "history_bench:measure": ("history-rejected", "history-asked", "history-lies"),
    "live_bench:idle": ("idle-memory", "idle-processor"),
    "live_bench:several": ("several-memory", "several-processor", "several-worker-memory", "several-status"),
    "live_bench:flood": ("flood-memory", "flood-log"),
}


def main(words: list[str]) -> int:
    """0 when every bar that was asked for is held."""
    parser = argparse.ArgumentParser(prog="make bench", description="measure the bars of the project")
    parser.add_argument("--only", default="", metavar="NAME", help="only the rows whose name, or module, begins so")
    only = parser.parse_args(words).only
    of = {name: source for source, given in SOURCES.items() for name in given}
    named = (bar for bar in BARS if bar.name.startswith(only) or of[bar.name].startswith(only))
    wanted = [bar for bar in named if only or not bar.long]
    if not wanted:
        parser.error(f"no row begins with {only!r}: {', '.join(bar.name for bar in BARS)}")
    print(f"{'name':<20}{'measured':>12}{'at most':>12}   {'':<6}", flush=True)
    held = [_held(source, wanted) for source in dict.fromkeys(of[bar.name] for bar in wanted)]
    return 0 if all(held) else 1


def _held(source: str, wanted: list[Bar]) -> bool:
    """Measures the figures of one source, from one run, and prints those that are asked for; whether all are held.

    What cannot be measured here is said, and left out; what fails is said, and the others are measured all the same.
    """
    asked = [bar for bar in wanted if bar.name in SOURCES[source]]
    print(f"measuring {', '.join(SOURCES[source])} ...", file=sys.stderr, flush=True)
    name, _, function = source.partition(":")
    module = import_module(name)
    if why := getattr(module, "missing", lambda: None)():
        print(f"skipped: {why}", file=sys.stderr, flush=True)
        return True
    try:
        found = getattr(module, function)()
    except (Exception, SystemExit):
        traceback.print_exc()
        print(f"FAILED: {', '.join(bar.name for bar in asked)}", flush=True)
        return False
    for bar in asked:
        print(line(bar, found[bar.name]), flush=True)
    return all(found[bar.name] <= bar.most for bar in asked)


def line(bar: Bar, value: float) -> str:
    """One line of the table."""
    word = "ok" if value <= bar.most else "MISSED"
    return f"{bar.name:<20}{value:>10.2f} {bar.unit:<2}{bar.most:>9.2f} {bar.unit:<2} {word:<7}{bar.what}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
