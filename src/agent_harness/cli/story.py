"""Commands that show recorded work: ``harness why``, ``diff``, ``costs``, ``report``, ``watch`` and ``serve``.

These commands change nothing in the project and take no lock. Their options are parsed without click, so they start
fast. Actions on the ``serve`` page run other commands. Source: ``faces.md`` 3, 5, 6."""

from __future__ import annotations

import sys

from agent_harness.cli import project_here, say_json
from agent_harness.cli.verbs import JSON, STYLE, Argument, Number, OneOf, Option, Program, Subcommand, guarded, parts
from agent_harness.errors import NotAProject

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.root import Kind
    from agent_harness.session.project_view import ProjectReader

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Run a command line of this module and return its exit code. Never print a traceback."""
    return guarded(STORY, _run, words)


def _run(words: list[str]) -> int:
    verb = words[0]
    given: dict[str, Any] = STORY.parse(verb, words[1:])
    act = STORY.verbs[verb].act
    assert act is not None
    return int(act(**{key.replace("-", "_"): value for key, value in given.items()}))


def _reader() -> ProjectReader:
    from agent_harness.views.reading import reader_of

    found = project_here()
    return reader_of(found.kind, found.path)


def _show(lines: list[str], *, whole: tuple[str, ...] = ()) -> None:
    """Print lines wrapped to the terminal's width. Do not wrap lines that start with a word in ``whole``."""
    from agent_harness.kernel import terminal

    print("\n".join(terminal.laid_out(lines, whole=whole)))


# ---- why


def _why(
    *,
    item: str | None = None,
    full: bool = False,
    output: float | None = None,
    receipt: str | None = None,
    sign: str | None = None,
    json: bool = False,
) -> int:
    from agent_harness.views import why

    reader = _reader()
    view = reader.load()
    chosen = why.item_of(view, item)
    if receipt is not None or sign is not None:
        from agent_harness.gate import receipt as receipts

        receipts.check_target(receipt, sign)
        kept = receipts.write(str(receipt), receipts.of_claim(view, why.last_verdict(view, chosen)), key=sign)
        say_json("why", {"item": chosen.id, "receipt": kept}) if json else _show([kept["file"]])
        return 0
    if output is not None:
        kept = why.outputs(view, chosen, int(output))
        if json:
            say_json("why", {"item": chosen.id, "n": int(output), "outputs": dict(kept)})
        else:
            _show([line for name, text in kept for line in (f"-- {name}", *text.rstrip("\n").split("\n"))])
        return 0
    found = why.explain(view, chosen)
    if several := why.not_landed(reader.home, chosen.id) if not found["proven"] else []:
        found["not_landed"] = several
    if json:
        say_json("why", found)
    else:
        _show(why.lines(found, full=full), whole=("check it", "and before", "then", "next", " " * 11 + "cd "))
    return 0


# ---- diff


def _diff(
    *, what: str | None = None, stat: bool = False, tests: bool = False, name_only: bool = False, json: bool = False
) -> int:
    from agent_harness.errors import NothingEligible
    from agent_harness.kernel.terminal import one_line
    from agent_harness.views import diff

    found = diff.chosen(_reader().load(), what)
    paths = diff.paths_of(found, tests=tests)
    if json:
        say_json("diff", found.as_json(paths))
        return 0
    if not paths:
        named = "no test" if tests else "nothing"
        raise NothingEligible(f"{found.name} changed {named}", hint="harness log sessions")
    print(one_line(found.line), file=sys.stderr, flush=True)
    form = [*(["--stat"] if stat else []), *(["--name-only"] if name_only else [])]
    return 1 if diff.show(found, form=form, tests=[path for _, path in paths] if tests else ()) else 0


# ---- costs


def _costs(*, by: str = "item", json: bool = False, csv: bool = False) -> int:
    from agent_harness.views import costs

    found = costs.read(_reader().load(), by)
    if json:
        say_json("costs", found)
    elif csv:
        print(costs.csv_lines(found), end="")
    else:
        _show(costs.lines(found))
    return 0


# ---- report


def _report(
    *,
    out: str | None = None,
    open: bool = False,  # noqa: A002 - as the option is called
    since: str | None = None,
    share: bool = False,
    no_costs: bool = False,
    full: bool = False,
    markdown: bool = False,
    json: bool = False,
) -> int:
    from agent_harness.errors import UsageError

    if markdown and (json or out):
        raise UsageError("--markdown cannot be used with --json or --out", hint="harness report --help")
    reader = _reader()
    if markdown or json:
        from agent_harness.kernel.json import jsontext
        from agent_harness.views.report import page, values

        found = _report_values(reader, since)
        text = page.markdown(found, costs=not no_costs) if markdown else jsontext.spaced({"ok": True, **found})
        print((values.shareable(text, reader.load()) if share else text).rstrip("\n"))
        return 0
    path = write_report(reader, out=out, since=since, share=share, costs=not no_costs, full=full)
    _show([path])
    if open:
        import webbrowser

        webbrowser.open(f"file://{path}")
    return 0


def write_report(
    reader: ProjectReader,
    *,
    out: str | None = None,
    since: str | None = None,
    share: bool = False,
    costs: bool = True,
    full: bool = False,
) -> str:
    import os

    from agent_harness.errors import Refused
    from agent_harness.kernel import files
    from agent_harness.views.report import page, values

    view = reader.load()
    text = page.page(_report_values(reader, since), costs=costs, full=full)
    path = os.path.abspath(out or os.path.join(view.path, ".harness", "report.html"))
    try:
        if out is None:
            _make_ignored(os.path.dirname(path))
        shown = values.shareable(text, view) if share else text
        files.replace(path, shown.encode())
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}", hint="harness report --out FILE") from None
    return path


def _report_values(reader: ProjectReader, since: str | None) -> JsonObject:
    import os

    from agent_harness.kernel import clock
    from agent_harness.session.log_rows import moment
    from agent_harness.views.report import values

    told = os.environ.get("SOURCE_DATE_EPOCH", "")
    at = clock.moment(float(told)) if told.isdecimal() else clock.now()
    return values.read(reader.load(), chain=reader.chain(), at=at, since=moment(since, at) if since else None)


def _make_ignored(folder: str) -> None:
    import os

    from agent_harness.kernel import files

    if os.path.islink(folder):
        raise NotADirectoryError(None, "the folder is a symbolic link, and the harness does not follow links")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        files.replace(os.path.join(folder, ".gitignore"), b"*\n")


def _watch(
    *,
    item: str | None = None,
    all: bool = False,  # noqa: A002 - as the option is called
    plain: bool = False,
    once: bool = False,
    json: bool = False,
) -> int:
    from agent_harness.cli import watch

    return watch.main(item=item, everything=all, plain=plain, once=once, as_json=json)


# ---- serve


def _serve(
    *,
    path: tuple[str, ...] = (),
    all: bool = False,  # noqa: A002 - as the option is called
    port: int | None = None,
    open: bool = False,  # noqa: A002 - as the option is called
    read_only: bool = False,
    link: bool = False,
    allow_host: str = "",
    json: bool = False,
) -> int:
    from agent_harness.errors import ToolMissing, UsageError
    from agent_harness.installation import command_for_extra
    from agent_harness.kernel import owner

    if path and all:
        raise UsageError("--all and a path cannot be used together", hint="harness serve --help")
    owner.refuse_agents(None, "harness serve")  # anybody with the link decides as a person
    try:
        from agent_harness.views.serve import server
        from agent_harness.views.serve.window import Window
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "agent_harness":
            raise
        raise ToolMissing("the extra `serve` is not installed.", hint=command_for_extra("serve")) from None
    if link:
        found = server.links(port)
        if json:
            say_json("serve", {"links": found})
        else:
            _show(found)
        return 0
    named = () if all else _projects_at(path)

    def began(address: str, at: int) -> None:
        if json:
            say_json("serve", {"url": address, "port": at, "projects": [folder for _, folder in named]})
        else:
            taken = f"Port {port} is in use; " if port and at != port else ""
            _show(
                [
                    f"{taken}{address}",
                    "The link works once, within a minute. For a new link: harness serve --link. To stop: Ctrl-C.",
                ]
            )
        sys.stdout.flush()
        if open:
            import webbrowser

            webbrowser.open(address)

    hosts = parts(allow_host)
    server.serve(Window(named, read_only=read_only), port=port, allowed_hosts=hosts, began=began)
    return 0


def _projects_at(paths: tuple[str, ...]) -> tuple[tuple[Kind, str], ...]:
    """Return the project in or above each path. Without paths, return the nearest project."""
    from agent_harness.kernel import root

    found = [(each, root.find(each, pin=False)) for each in paths] or [(".", root.find())]
    for path, project in found:
        if project is None:
            raise NotAProject(f"No project at {path} or above", hint="harness serve --all")
    projects = dict.fromkeys(project for _, project in found)
    return tuple((each.kind, each.path) for each in projects if each is not None)


def _port(word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) < 1 << 16):
        raise ValueError(f"{word!r} is not a port (0 to 65535).")
    return int(word)


STORY = Program(
    "harness",
    "Show the records of a project.",
    {
        "why": Subcommand(
            "Explain why a feature, a task or a long task is proven or not proven. Show the item's state and cost, "
            "what the item waits for, and how to check it without the harness. Also show each claim with its verdict "
            "and reason, and the decisions of people.\n\n"
            "To check the item, run the printed lines in order, in one shell, in the project's folder. ITEM is an id: "
            "5, '#5' or task-001. A long task needs no ITEM.",
            Argument("item", "ITEM", str, required=False),
            Option("--full", None, "Print all lines, instead of at most 30."),
            Option("--output", "N", "Print the output of each step of verdict N.", Number(1)),
            Option("--receipt", "FILE", "Write the item's last verdict as a receipt to a new FILE."),
            Option("--sign", "KEY", "Sign the receipt with this SSH key."),
            JSON,
            example="harness why 5",
            act=_why,
        ),
        "diff": Subcommand(
            "Show what a session or an item changed, with git's diff and pager. A line on stderr says if the change "
            "was accepted, was rolled back or is in progress.\n\n"
            "A number names a session of `harness log sessions`. If there is no such session, the number names an "
            "item. S7 is always a session, and #7 is always an item. The name of a rescue (`harness rescue list`) "
            "stands for the session whose work the rescue keeps. For a proven item, the command shows all of the "
            "item's work.",
            Argument("what", "SESSION|ITEM", str, required=False),
            Option("--stat", None, "Print the number of changed lines for each file."),
            Option("--tests", None, "Show only changes of tests and of files that tests depend on."),
            Option("--name-only", None, "Print only the paths of the changed files."),
            JSON,
            example="harness diff S7 --stat",
            act=_diff,
        ),
        "costs": Subcommand(
            "Show the total cost, the cost for each proven item, and the cost of sessions whose claims were rejected. "
            "Costs that an agent did not report are listed separately, and never as $0.00.",
            Option(
                "--by",
                "WAY",
                "Group the rows by item, agent, model or day. [default: item]",
                OneOf("item", "agent", "model", "day"),
            ),
            JSON,
            Option("--csv", None, "Print the rows as CSV."),
            example="harness costs --by day",
            act=_costs,
        ),
        "report": Subcommand(
            "Write a report on one self-contained page. The page shows what waits for you, the proven items, and how "
            "to check each item without the harness. It also shows the false claims of each agent, the costs, and the "
            "work that was rolled back and kept. The same records always give the same page.",
            Option("--out", "FILE", "Write the page to FILE. [default: .harness/report.html]"),
            Option("--open", None, "Open the page in the browser."),
            Option("--since", "WHEN", "Include only claims and sessions since WHEN: 2h or 3d ago, or a date."),
            Option("--share", None, "Omit paths and names of this machine."),
            Option("--no-costs", None, "Omit the costs."),
            Option("--full", None, "Include all sessions, not only the last sessions."),
            Option("--markdown", None, "Print a summary as one screen of Markdown, for example for a pull request."),
            JSON,
            example="harness report --open",
            act=_report,
        ),
        "watch": Subcommand(
            "Show a project while agents work on it: the proven items, all items, the messages of agents and the "
            "harness, and each agent with its action, time and cost. If you leave the view or lose the connection, "
            "the run continues. Press ? to list the keys. Without a terminal, the command prints plain lines, as with "
            "--plain.",
            Argument("item", "ITEM|SLOT", str, required=False),
            Option("--all", None, "Show all your projects, one line each. Projects that need you come first."),
            Option("--plain", None, "Print new log lines as they are written, and the state once a minute."),
            Option("--once", None, "Print the view once and exit."),
            JSON,
            example="harness watch --all",
            act=_watch,
        ),
        "serve": Subcommand(
            "Show projects live in a browser on this machine. On the page, you can answer questions, pause and resume "
            "a project, send a message to the agent, take over the project, and hand it back. Each action does the "
            "same as the command of that name. The server listens only on the loopback interface, and the command "
            "prints a link that opens the page. From another machine, run: ssh -L 8770:127.0.0.1:8770 HOST. The "
            "command needs the extra `serve`.",
            Argument("path", "[PATH]...", str, required=False, many=True),
            Option("--all", None, "Show all your projects. Projects that need you come first."),
            Option("--port", "N", "Listen on port N; 0: any free port. [default: 8770, or the next free port]", _port),
            Option("--open", None, "Open the page in the browser."),
            Option("--read-only", None, "Show pages without actions, so that nobody can change a project."),
            Option("--link", None, "Print a new link to the running server."),
            Option(
                "--allow-host",
                "NAMES",
                "Accept these host names, separated by commas, of a proxy that has its own login.",
                many=True,
            ),
            JSON,
            example="harness serve --all --open",
            act=_serve,
        ),
    },
    STYLE,
)
