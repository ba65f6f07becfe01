"""``harness gate``: the verdict of the harness on a change in any git repository."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import json_option, say_to, screen, show, show_answer
from agent_harness.errors import UnsafeTree, UsageError
from agent_harness.kernel.terminal import printable

if TYPE_CHECKING:
    from agent_harness.gate.decision import GateTerms
    from agent_harness.kernel.git import Git


@contextmanager
def leaving_nothing(git: "Git") -> Iterator[None]:
    """Remove the harness's folder in the git directory after the ``with`` block, unless it was there before."""
    own = git.git_dir() / "harness"
    was_there = own.exists()
    try:
        yield
    finally:
        if not was_there:
            with suppress(OSError):  # not empty, or a run of the harness is in it
                own.rmdir()


@click.command(
    epilog="""\b
Examples:
  harness gate                          judge this branch against origin/main
  harness gate --worktree               judge the uncommitted files, too
  harness gate --base v1.2 --json
  harness gate --check "python3 -m pytest -q" --allow pytest.ini
  harness gate --history 20 --author claude --report history.html""",
)
@click.option(
    "--base", metavar="REV", help="Judge the commits after REV. [default: the remote's default branch, or main]"
)
@click.option("--head", metavar="REV", help="Judge the commits up to REV. [default: HEAD]")
@click.option("--worktree", is_flag=True, help="Judge the uncommitted files, too.")
@click.option(
    "--check", "checks", metavar="COMMAND", multiple=True, help="Command that runs the tests; may be repeated."
)
@click.option("--test", "tests", cls=Several, metavar="FILE", help="Test file of the change")
@click.option("--allow", cls=Several, metavar="GLOB", help="Protected files that may change")
@click.option(
    "--require",
    type=click.Choice(["proven", "checked"]),
    help="Ask a person about a change of which the tests show less than this.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=30,
    show_default=True,
    help="Time limit of each run.",
)
@click.option("--receipt", metavar="FILE", help="Write the verdict as a receipt to a new FILE.")
@click.option("--sign", metavar="KEY", help="Sign the receipt with this SSH key.")
@click.option(
    "--write",
    "written",
    metavar="FORM=FILE",
    multiple=True,
    help="Also write the answer to FILE, as markdown, github (annotations) or gitlab (code quality); may be repeated.",
)
@click.option("--history", type=click.IntRange(min=1), metavar="N", help="Judge each of the last N merged changes.")
@click.option("--author", metavar="REGEX", help="With --history: only changes of these authors.")
@click.option("--trailer", metavar="TEXT", help="With --history: only changes with this trailer, such as 'KEY: VALUE'.")
@click.option("--report", metavar="FILE", help="With --history: write the answer as one HTML page.")
@json_option
def gate(
    *,
    base: str | None,
    head: str | None,
    worktree: bool,
    checks: tuple[str, ...],
    tests: tuple[str, ...],
    allow: tuple[str, ...],
    require: str | None,
    minutes: float,
    receipt: str | None,
    sign: str | None,
    written: tuple[str, ...],
    history: int | None,
    author: str | None,
    trailer: str | None,
    report: str | None,
    as_json: bool,
) -> int:
    """Judge a change that anybody made, in any git repository.

    The gate runs the tests itself: the tests that passed on the base must pass, new tests must fail without the
    change, and changed expectations must be noticed. It changes no file, no ref and no setting of the repository.

    Exit code: 0 accepted, 1 rejected, 3 a person must decide, 4 the tests cannot be run.
    """
    from agent_harness.gate import answer, change, ci, decision
    from agent_harness.gate import receipt as receipts
    from agent_harness.kernel.git import Git

    if not all(each.strip() for each in checks):
        raise UsageError("--check has no command", hint="harness gate --check 'COMMAND'")
    targets = ci.targets(written)
    here = Git(Path.cwd())
    if not here.is_repository:
        raise UnsafeTree(f"{here.root} is not in a git repository", hint="cd to a git repository")
    git = Git(here.top())
    receipts.check_target(receipt, sign)
    given = {"checks": tuple(checks), "tests": tuple(tests), "allow": tuple(allow), "require": require or ""}
    terms = decision.GateTerms(**given, timeout_seconds=minutes * 60)
    of_past = {"--author": author, "--trailer": trailer, "--report": report}
    of_one = {"--head": head, "--worktree": worktree, "--test": tests, "--receipt": receipt, "--write": written}
    _refuse(of_one if history else of_past, "excludes --history" if history else "needs --history N")
    with leaving_nothing(git):
        if history:
            return _history(git, terms, (history, base, author, trailer), report, as_json=as_json)
        with screen(as_json=as_json).watching(list):
            found = change.between(git, base=base, head=head or "HEAD", worktree=worktree)
            done = decision.decide(found, terms, say=say_to(as_json=as_json))
        if not as_json:  # said even if the receipt cannot be written
            show("\n".join(map(printable, answer.lines(done))))
        ci.write(targets, answer.as_record(done))
        kept = receipts.write(receipt, receipts.of_gate(done, terms), key=sign) if receipt else {}
        if as_json:
            told = {**answer.as_record(done), **({"receipt": kept} if kept else {})}
            click.echo(json.dumps(told, ensure_ascii=False))
        elif kept:
            show(f"  receipt  {kept['file']} (sha256 {kept['sha256'][:16]})")
    return done.exit_code


def _refuse(options: Mapping[str, object], why: str) -> None:
    if given := [name for name, value in options.items() if value]:
        raise UsageError(f"{given[0]} {why}", hint="harness gate --help")


def _history(
    git: "Git",
    terms: "GateTerms",
    asked: tuple[int, str | None, str | None, str | None],
    report: str | None,
    *,
    as_json: bool,
) -> int:
    from agent_harness.gate import history, history_page
    from agent_harness.kernel import files

    wanted = history.Wanted(*asked)
    place = Path(report or "history.html").absolute()
    if place.is_dir() or not place.parent.is_dir():
        raise UsageError(f"--report {report}: not a file in an existing folder", hint="--report history.html")
    with screen(as_json=True).watching(list):  # progress is on stderr, so that the table can be kept in a file
        found = history.look_back(git, wanted, terms, say=say_to(as_json=True))
    if report:
        files.replace(place, history_page.page(found))
    show_answer(found, [*history.lines(found)], as_json=as_json)
    return 0
