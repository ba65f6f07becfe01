"""``harness import`` and ``harness export``: read and write the task lists of other programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli import project_here, say_json
from agent_harness.cli.machine.options import Several
from agent_harness.cli.terminal import ask, json_option, show
from agent_harness.errors import NotAProject, Refused, UsageError
from agent_harness.kernel.terminal import is_terminal

if TYPE_CHECKING:
    from agent_harness.backlog.items import Backlog, BacklogItem
    from agent_harness.kernel.json import JsonObject

READ = ("taskmaster", "beads", "prd", "speckit", "markdown", "github", "features", "tasklist", "longtask")
WRITTEN = ("markdown", "taskmaster", "beads", "prd", "speckit", "tasklist", "features", "longtask")


class _FormOrPlace(click.ParamType[str, str]):
    name, words = "FORM", WRITTEN


SHOWN = 12  # items, and things left out, of a preview


@click.command(
    "import",
    epilog="""\b
Examples:
  harness import .taskmaster/tasks/tasks.json          shows the new items, and asks
  harness import ../other-project --yes                the list in that folder
  harness import PLAN.md --validate 'pytest -q' --yes  one command for items without one
  harness import github:acme/shop --label ready        open issues of a repository""",
)
@click.argument("source", metavar="FILE|FOLDER|github:OWNER/NAME")
@click.option("--from", "form", type=click.Choice(READ), help="Format of the file. [default: detected from content]")
@click.option("--tag", metavar="NAME", help="Import this tag of a Task Master file. [default: master]")
@click.option("--label", "labels", cls=Several, metavar="NAME", help="GitHub: import only issues with this label.")
@click.option("--anyone", is_flag=True, help="GitHub: also import issues by people without write access.")
@click.option("--validate", metavar="CMD", help="Task list: check for items without a check. {id} is the item's id.")
@click.option("--with-done", is_flag=True, help="Also import finished items. They become open items.")
@click.option("--dry-run", is_flag=True, help="Show the new items, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Import without asking for confirmation.")
@json_option
def import_(
    *,
    source: str,
    form: str | None,
    tag: str | None,
    labels: tuple[str, ...],
    anyone: bool,
    validate: str | None,
    with_done: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Import tasks from Task Master, Beads, the Ralph family, spec-kit, a Markdown checklist, GitHub issues, or another
    harness project. The command adds the tasks to the project in this folder, or to a new task list.

    Before the command changes anything, it shows the new items, how each item will be proven, and the parts that cannot
    be imported. Items that were imported earlier do not change, so you can repeat the command. By default, items that
    are marked as done in the source are skipped. No item is imported as done.
    """
    target = _Target.here()
    into = None if target.new else target.root
    backlog = _read(source, form=form, tag=tag, labels=labels, anyone=anyone, with_done=with_done, into=into)
    here = target.sources()
    new = [each for each in backlog.items if backlog.key(each.id) not in here]
    if target.kind == "features" and validate:
        raise UsageError(
            "--validate works only in a task list, because a feature is proven by its test file",
            hint=f"harness import {source}",
        )
    interactive = not (yes or dry_run or as_json) and sys.stdin is not None and sys.stdin.isatty()
    if new and interactive and target.kind == "tasklist" and not validate:
        validate = _asked(new)
    found: JsonObject = {
        **backlog.as_json(),
        "into": target.kind,
        "root": target.root,
        "new": [_shown(target, backlog, each, validate) for each in new],
        "already": len(backlog.items) - len(new),
        "imported": 0,
    }
    if not as_json:
        _preview(source, target, found)
    if new and not dry_run:
        if not ask(yes=yes)(f"Import {len(new)} {'item' if len(new) == 1 else 'items'} into {target.name}?"):
            raise Refused("Nothing was imported", hint=f"harness import {source} --yes")
        found["imported"] = target.add(backlog, new, validate)
    following = target.following(found["new"]) if found["imported"] else "harness status"
    if as_json:
        say_json("import", {**found, "next": following})
    elif found["imported"]:
        show(f"Imported {found['imported']}.\nnext: {following}")
    else:
        show("No changes made." if new or not backlog.items else "No new items: all are already here.")
    return 0


def _read(source: str, *, form: str | None, labels: tuple[str, ...], anyone: bool, **given: Any) -> Backlog:
    repository = source.removeprefix("github:") if source.startswith("github:") else None
    if repository is None and source.startswith("https://github.com/"):
        repository = source.removeprefix("https://github.com/").removesuffix("/issues")
    if repository is None and form != "github":
        if labels or anyone:
            raise UsageError(
                "--label and --anyone work only with GitHub issues", hint="harness import github:OWNER/NAME"
            )
        from agent_harness.backlog.reading import read

        path = Path(source)
        if not source.strip() or not path.exists():
            raise Refused(f"{source} does not exist", hint="harness import --help")
        return read(path, wanted=form, **given)
    from agent_harness.backlog.issues import read_issues
    from agent_harness.protocols.features import api

    name, with_done = repository or source, bool(given["with_done"])
    rows = api.issues_of(name, labels=labels, closed=with_done, say=lambda line: show(line, err=True))
    return read_issues(name, rows, anyone=anyone, with_done=with_done)


def _asked(new: list[BacklogItem]) -> str | None:
    without = sum(each.proof is None for each in new)
    if not without:
        return None
    show(f"Items without a check: {without} of {len(new)}. A task cannot be completed without a check.", err=True)
    line = "Check command for all of these items ({id} stands for the item's id; press Enter to set the checks later)"
    return click.prompt(line, default="", show_default=False, err=True) or None


class _Target:
    """Project that receives the imported items."""

    def __init__(self, kind: str, root: str, *, new: bool) -> None:
        self.kind, self.root, self.new = kind, root, new

    @classmethod
    def here(cls) -> _Target:
        from agent_harness.kernel import root

        found = root.find()
        if found is None:
            return cls("tasklist", os.getcwd(), new=True)
        if found.kind == "longtask":
            raise NotAProject(
                f"{found.path} is a long task, and a long task has no list of items", hint="harness init --beside ."
            )
        return cls(found.kind, found.path, new=False)

    @property
    def name(self) -> str:
        kind = {"features": "the feature project", "tasklist": "the task list"}[self.kind]
        return f"a new task list in {self.root}" if self.new else f"{kind} in {self.root}"

    def sources(self) -> dict[str, Any]:
        if self.new:
            return {}
        return self._project().sources()

    def _project(self) -> Any:
        if self.kind == "features":
            from agent_harness.cli import features

            return features.opened(as_json=True)
        from agent_harness.cli.tasks import open_list

        return open_list()

    def add(self, backlog: Backlog, items: list[BacklogItem], validate: str | None) -> int:
        from agent_harness.backlog.items import proof_for

        rows: list[JsonObject] = []
        for each in items:
            needs = [backlog.key(need) for need in each.needs]
            row: JsonObject = {"source": backlog.key(each.id), "depends_on": needs}
            if self.kind == "features":
                row |= {"description": each.title, "details": each.text, "test_file": each.test_file}
                row |= {"verification_steps": list(each.steps), "priority": each.priority}
                row |= {"may_change": list(each.may_change)}
            else:
                row |= {"title": each.title, "description": each.text, "acceptance": list(each.steps)}
                row["priority"] = f"P{each.priority}" if each.priority in (0, 1, 2) else None
                if proof := proof_for(each, validate):
                    more = {"timeout_seconds": each.timeout_seconds, "may_change": list(each.may_change)}
                    row["validation"] = {"command": proof, **{name: value for name, value in more.items() if value}}
            rows.append({name: value for name, value in row.items() if value not in (None, "", [])})
        if self.new:
            from agent_harness.protocols.tasklist.api import TaskList

            return len(TaskList.begin(self.root, rows)[1]["task_ids"])
        project = self._project()
        if self.kind == "features":
            return len(project.add_all(rows)["added"])
        return len(project.add(rows)["task_ids"])

    def following(self, new: list[JsonObject]) -> str:
        """Return the command that the user should run after the import."""
        if self.kind == "tasklist" and any(not each["proof"] for each in new):
            return "harness task set ID validation.command='...'"
        return "harness run"


def _shown(target: _Target, backlog: Backlog, item: BacklogItem, validate: str | None) -> JsonObject:
    from agent_harness.backlog.items import proof_for

    if target.kind == "features":
        proof = item.test_file or "a separate test file, with a failing stub"
    else:
        proof = proof_for(item, validate)
    shown = {"id": item.id, "source": backlog.key(item.id), "title": item.title, "needs": [*item.needs]}
    return {**shown, "proof": proof, "may_change": [*item.may_change]}


def _preview(source: str, target: _Target, found: JsonObject) -> None:
    new, left_out = found["new"], found["left_out"]
    known = f"; {found['already']} imported before" if found["already"] else ""
    show(f"{source} ({found['format']}): {len(new)} new for {target.name}{known}")
    for each in new[:SHOWN]:
        needs = f"  after {', '.join(each['needs'][:4])}" if each["needs"] else ""
        frees = f"; may change {', '.join(each['may_change'])}" if each["may_change"] else ""
        show(f"  {each['id']}  {each['title']}{needs}\n      proven by: {each['proof'] or 'nothing yet'}{frees}")
    if len(new) > SHOWN:
        show(f"  and {len(new) - SHOWN} more: harness import {source} --dry-run --json")
    if without := sum(not each["proof"] for each in new):
        show(f"Items without a check: {without}. They cannot be completed. To set a check: --validate CMD")
    _tell_left_out(left_out)


def _tell_left_out(found: list[JsonObject], *, err: bool = False) -> None:
    if found:
        show(f"Not included: {len(found)}", err=err)
    for each in found[:SHOWN]:
        show(f"  {each['what']}: {each['why']}", err=err)
    if len(found) > SHOWN:
        show(f"  and {len(found) - SHOWN} more", err=err)


@click.command(
    epilog="""\b
Examples:
  harness export                              a Markdown checklist
  harness export --to beads --out issues.jsonl
  harness export --to prd | less
  harness export --to features --out ../other/features.json      another harness project
  harness export otel --to http://127.0.0.1:4318/v1/traces""",
)
@click.argument("what", type=click.Choice(["otel"]), required=False)
@click.option(
    "--to",
    "form",
    type=_FormOrPlace(),
    metavar="FORM",
    help=f"Target format: {', '.join(WRITTEN)}. With otel: a file or a URL.",
)
@click.option("--session", type=int, metavar="N", help="otel: export only this session.")
@click.option("--since", metavar="WHEN", help="otel: export sessions since WHEN: 2h or 3d ago, or a date.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this new file. [default: stdout]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def export(
    *,
    what: str | None,
    form: str | None,
    session: int | None,
    since: str | None,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Write open and proven items in the format of another program, or of another harness project. Only proven items
    are written as done. The command lists data that the format cannot represent.

    `harness export otel` writes sessions, verdicts and their steps as OpenTelemetry spans to a file, a receiver, or
    stdout.
    """
    if what == "otel":
        return _export_spans(form or (str(out) if out else None), session, since, force=force, as_json=as_json)
    if session is not None or since is not None:
        raise UsageError(
            "--session and --since work only with: harness export otel", hint="harness export otel --session 3"
        )
    form = form or "markdown"
    if form not in WRITTEN:
        raise UsageError(f"--to must be one of {', '.join(WRITTEN)}, got {form}", hint="harness export --to markdown")
    from agent_harness.backlog.writing import not_carried, write
    from agent_harness.kernel import files

    state, backlog = _own_list()
    folder = out.resolve().parent if out is not None and form == "longtask" else state.parent  # a long task's id
    text = write(form, folder.name, backlog.items)
    lost = [{"what": each.what, "why": each.why} for each in (*backlog.left_out, *not_carried(form, backlog.items))]
    if out is not None:
        _refuse_state(out, state, form)
        if os.path.lexists(out) and not force:
            raise Refused(f"{out} already exists", hint=f"harness export --to {form} --out {out} --force")
        files.replace(out, text.encode(), follow=True)
    if as_json:
        done, count = sum(each.done for each in backlog.items), len(backlog.items)
        members = {"format": form, "items": count, "proven": done, "out": str(out) if out else None, "left_out": lost}
        say_json("export", {**members, **({} if out else {"text": text})})
        return 0
    if out is not None:
        show(f"Wrote {len(backlog.items)} items to {out}.")
    elif is_terminal():
        show(text.rstrip("\n"))
    else:
        sys.stdout.write(text)
    _tell_left_out(lost, err=True)
    return 0


def _refuse_state(out: Path, state: Path, form: str) -> None:
    """Raise ``Refused`` if ``out`` is a project's state file, or would look like a state file."""
    from agent_harness.backlog.reading import OWN
    from agent_harness.kernel import root

    path = out.resolve()
    if path == state.resolve():
        raise Refused(f"{out} is this project's own state file", hint=f"harness export --to {form} --out FILE")
    there = root.find(path.parent, pin=False)
    if path.name in OWN and there is not None and there.path == str(path.parent) and not path.exists():
        said = f"{there.path} contains a project; a file {path.name} there would look like another project"
        raise Refused(said, hint=f"harness export --to {form} --out FOLDER/{path.name}, in a separate folder")


def _own_list() -> tuple[Path, Backlog]:
    """Return this project's state file and items. Only proven or checked items count as done."""
    from dataclasses import replace

    from agent_harness.backlog.reading import read
    from agent_harness.views.reading import reader_of

    found = project_here()
    state = {"features": "features.json", "tasklist": "harness-tasks.json", "longtask": "task.json"}[found.kind]
    backlog = read(Path(found.path, state), wanted=found.kind, with_done=True)
    states = {each.id: each.state for each in reader_of(found.kind, found.path).load().items}
    items = tuple(replace(each, done=states.get(each.id) in ("proven", "checked")) for each in backlog.items)
    return Path(found.path, state), replace(backlog, items=items)


def _export_spans(to: str | None, session: int | None, since: str | None, *, force: bool, as_json: bool) -> int:
    from agent_harness.kernel import clock
    from agent_harness.kernel.redact import redact
    from agent_harness.session.log_rows import moment
    from agent_harness.views import otel
    from agent_harness.views.otel import spans
    from agent_harness.views.reading import reader_of

    found = project_here()
    at = moment(since, clock.now()) if since else None
    reader = reader_of(found.kind, found.path)
    made = spans.spans(reader.load(), reader.recordings(), session=session, since=at)
    text = spans.write(made, to, force=force)
    otel.keep_untaken(found.kind, found.path, None)
    to = redact(to) if to and "://" in to else to
    if as_json:
        say_json("export", {"format": "otel", "spans": len(made), "to": to})
    elif text is not None:
        sys.stdout.write(text)
    else:
        show(f"Wrote {len(made)} spans to {to}.")
    return 0


__all__ = ["export", "import_"]
