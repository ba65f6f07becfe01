"""Every command has an example in its help, and every example that can be typed here is: in a shell, in a project that
fits it, with the exit code that the help of the command, or docs/exit-codes.md, has for it. Source: faces.md F-HELP-1.
"""

import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli.app import EXAMPLES as OF_HARNESS
from agent_harness.cli.machine import words
from agent_harness.testing.github_server import serve
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

from .calc import CalcProject, empty, environment, make
from .script import append, claim, commit, edit_features, honest, implement, prove, save, turn, usage, write
from .test_s01_init import initializer, records

SECONDS = 240
PLANNED = (
    "fs.append(dict(id=7, category='core', description='User can take the modulo', test_file='tests/e2e/test_mod.py', "
    "verification_steps=[], size_estimate='small', depends_on=[1], passes=False))"
)
STUB = 'import pytest\n\n\ndef test_mod():\n    pytest.fail("Not implemented")\n'


@dataclass(frozen=True, kw_only=True)
class Place:
    """Folder and environment in which an example is typed."""

    folder: Path
    environ: Mapping[str, str]


# ---- the places ------------------------------------------------------------------------------------------------------


def tools(base: Path, turns: list[dict[str, object]] | None = None) -> dict[str, str]:
    """Variables of a shell in which the programs of the examples are found: ours, an agent, clients, a notifier."""
    environ = environment(base, os.environ)
    script = save(
        base / "agent.json",
        turns or [turn({"run": 'echo "$HARNESS_TASK_ID" >> made'}, usage(1, 1, cost=0.1), times=99)],
    )
    for name, text in (
        ("lth", f"#!{sys.executable}\nimport sys\nfrom agent_harness.cli.lth import main\nsys.exit(main())\n"),
        ("my-agent", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m agent_harness.agents.scripted "{script}"\n'),
        (
            "claude",
            "#!/bin/sh\nharness session start && harness task claim && touch made && harness task complete task-001\n",
        ),
        ("notify-send", "#!/bin/sh\ncat > /dev/null\n"),
        ("browser", "#!/bin/sh\n"),
    ):
        path = base / "tools" / name
        path.write_text(text)
        path.chmod(0o755)
    return {**environ, "BROWSER": "browser", "TMPDIR": str(base), "HARNESS_PROVIDER_SCALE": "0"}


def nothing(base: Path) -> Place:
    """An empty folder."""
    (base / "here").mkdir()
    return Place(folder=base / "here", environ=tools(base))


def repository(base: Path) -> Place:
    """Code and a test that passes, a specification, and lists of other programs."""
    files = {
        "src/calc.py": "def add(a, b):\n    return a + b\n",
        "tests/test_calc.py": "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n",
        "pytest.ini": "[pytest]\npythonpath = src\naddopts = --disable-plugin-autoload\n",
        "PLAN.md": "- [ ] Build it\n- [ ] Sell it\n",
        "tasks.jsonl": '{"title": "One", "validation": {"command": "true"}}\n',
        ".taskmaster/tasks/tasks.json": json.dumps(
            {"master": {"tasks": [{"id": 1, "title": "Sign in", "status": "pending", "dependencies": []}]}}
        ),
        ".gitignore": "__pycache__/\n.pytest_cache/\n",
    }
    Repo.with_files(base / "here", files)
    other = TaskListProject(base / "other-project", task("task-001", title="Another thing"))
    assert other.statuses() == ["pending"]
    return Place(folder=base / "here", environ=tools(base))


def unplanned(base: Path) -> Place:
    """A repository with nothing but a specification, and an agent that plans."""
    (base / "work").mkdir()
    calc = empty(base / "work", os.environ)
    calc.git("init", "-q", "-b", "main")
    (calc.root / "SPEC.md").write_text("# Calculator\n\nAdd, subtract, multiply, divide, raise, report.\n")
    (base / "mine").mkdir()
    return Place(folder=calc.root, environ={**tools(base / "mine", [initializer(records(), times=9)])})


def listed(base: Path, **members: Any) -> TaskListProject:
    """Three tasks, each proven by the same file."""
    proof = {"command": "test -f made", "timeout_seconds": 60}
    tasks = [task(f"task-{n:03}", title=f"Part {n}", validation=proof) for n in (1, 2, 3)]
    config = {"fix_rounds": 0, "requires_red": "off"}
    return TaskListProject(base / "here", *tasks, git=True, session_config=config, **members)


def tasks(base: Path) -> Place:
    """A task list before its first session."""
    made = listed(base, session_count=0)
    made.repo.write("check.sh", "test -f made\n").write("payload.json", '{"session_id": "s1"}').commit("Files")
    (base / "here/tasks.jsonl").write_text('{"title": "One", "validation": {"command": "true"}}\n')
    (base / "other").mkdir()
    return Place(folder=made.root, environ=tools(base))


def one_task(base: Path) -> Place:
    """A task list of one task."""
    made = TaskListProject(
        base / "here", task("task-001", validation={"command": "test -f made"}), git=True, session_count=0
    )
    return Place(folder=made.root, environ=tools(base))


def seventh(base: Path) -> Place:
    """A task list whose next session is the seventh."""
    made = listed(base, session_count=6)
    return Place(folder=made.root, environ=tools(base))


def eighth(base: Path) -> Place:
    """A task list whose next session is the eighth."""
    made = listed(base, session_count=7)
    return Place(folder=made.root, environ=tools(base))


def refused(base: Path) -> Place:
    """A task list whose agent changes what proves its task."""
    made = TaskListProject(
        base / "here",
        task("task-001", validation={"command": "sh check.sh", "timeout_seconds": 60}),
        git=True,
        session_count=0,
        session_config={"fix_rounds": 0, "requires_red": "off"},
    )
    made.repo.write("check.sh", "test -f made\n").commit("The check")
    changes = [turn({"run": "touch made; echo 'test -e made' > check.sh"}, usage(1, 1), times=9)]
    return Place(folder=made.root, environ=tools(base, changes))


def features(base: Path, turns: list[dict[str, object]] | None = None, *, count: int = 6) -> Place:
    """A feature project before its first session."""
    (base / "work").mkdir()
    (base / "mine").mkdir()
    calc = make(base / "work", os.environ, features=range(1, count + 1))
    for name in ("MORE.md", "SPEC.md"):
        (base / "work" / name).write_text("Take the modulo as well.\n")
    environ = {**calc.environ, **tools(base / "mine", turns), "CALC_UP": calc.environ["CALC_UP"]}
    return Place(folder=calc.root, environ=environ)


def built(base: Path) -> Place:
    """A feature project of which three features are proven, the third by a session; examples in it only look at it."""
    place = features(base)
    calc = CalcProject(base / "work", place.folder, place.environ)
    calc.accept(1, 2)
    ran = calc.run([turn(honest(3, decision="A library of one file"), usage(1, 1, cost=0.1))])
    assert ran.code == 0, ran
    return place


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], Place]], Place]:
    """A place that is made once, for the examples that only look at it."""
    return cache(lambda at: at(tmp_path_factory.mktemp("place")))


def untidy(base: Path) -> Place:
    """A feature project of which one feature is done, and whose agent tidies."""
    place = features(base, [turn(append("src/calc.py", "\n# tidy\n"), commit("Tidy"), usage(1, 1), times=9)])
    CalcProject(base / "work", place.folder, place.environ).accept(1)
    return place


def planning(base: Path) -> Place:
    """A feature project whose agent plans one more."""
    place = features(base, [turn(edit_features(PLANNED), write("tests/e2e/test_mod.py", STUB), times=9)])
    (place.folder / "MORE.md").write_text("Take the modulo as well.\n")
    CalcProject(base / "work", place.folder, place.environ).commit("More")
    return place


def honest_features(base: Path) -> Place:
    """A feature project of two features, whose agent does one after the other."""
    (base / "scripts").mkdir()
    place = features(base, count=2)
    save(place.folder / "script.yaml", [turn(honest(n), usage(1, 1), times=1) for n in (1, 2)])
    with (place.folder / ".git/info/exclude").open("a") as file:
        file.write("script.yaml\n")
    return place


def asking(question: dict[str, object]) -> Callable[[Path], Place]:
    """A feature project in which a question waits."""

    def place(base: Path) -> Place:
        made = features(base)
        path = made.folder / ".harness/session_state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "pending_escalation": question}))
        return made

    return place


stuck = asking(
    {
        "type": "verification_failed",
        "feature_id": 1,
        "message": "Its tests failed three times.",
        "options": ["retry", "skip", "manual", "abort"],
    }
)
spent = asking(
    {
        "type": "budget_exceeded",
        "message": "The session ran over its budget.",
        "options": ["increase", "pause", "abort"],
        "budget": "per_session_usd",
    }
)


def protected(base: Path) -> Place:
    """A feature project whose third feature is proven, but for a protected file that its session has changed."""
    place = features(base)
    calc = CalcProject(base / "work", place.folder, place.environ)
    calc.accept(1, 2)
    fixture = "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef quiet():\n    yield\n"
    work = [*implement(3), write("tests/conftest.py", fixture), *prove(3), claim(3), commit("Implement mul")]
    ran = calc.run([turn(work, times=9)])
    assert ran.code == 3, ran
    return place


def complete(base: Path) -> Place:
    """A feature project of which all is proven, in its maintenance mode."""
    place = features(base)
    CalcProject(base / "work", place.folder, place.environ).accept(1, 2, 3, 4, 5, 6)
    (place.folder / ".harness/maintenance.json").write_text('{"since": "2026-01-05T09:00:00Z"}')
    return place


def long_task(base: Path) -> Place:
    """A folder in which one slice of the long task `demo` has run."""
    (base / "here").mkdir()
    place = Place(folder=base / "here", environ=tools(base))
    begin = (
        "git init -q . && lth init demo --objective 'It is made' --criterion-command 'test -f made' "
        "--worker local-command --command 'echo made > made' --cwd . && "
        "printf 'build:\\n\\ttouch made\\n' > Makefile && echo fine > demo/report.txt && cp Makefile demo && "
        "git add -A && git commit -q -m Begin"
    )
    assert typed(begin, place)[0] == 0, typed(begin, place)
    return place


def fleet(base: Path) -> Place:
    """A home with one project in its fleet."""
    made = listed(base, session_count=0)
    environ = tools(base)
    home = base / "home"
    (home / "src").mkdir(parents=True)
    made.root.rename(home / "src/shop")
    (home / ".gitconfig").write_text((Path(os.environ["HOME"]) / ".gitconfig").read_text())
    environ |= {"HOME": str(home), "HARNESS_AGENT": "command:my-agent"}
    place = Place(folder=home, environ=environ)
    assert typed("harness fleet add ~/src/shop", place)[0] == 0
    return place


# ---- the examples ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Typed:
    """An example: the place, what is typed before it, what is answered on stdin, and how it ends."""

    at: Callable[[Path], Place]
    code: int = 0
    first: str = ""
    given: str = ""
    stops: bool = False  # it goes on until Ctrl-C, which is pressed once it has said something


RUN = "harness run --once --agent command:my-agent"
CLAIM = "harness session start && harness task claim --task task-001"
CHANGE = "git switch -q -c work && echo '# more' >> src/calc.py && git commit -qam More"
FAILED = f"{CLAIM} && echo half > half.txt && harness task fail task-001 --category TEST_FAIL why"
PREPARED: dict[str, Typed] = {
    # start
    "harness demo": Typed(at=nothing),
    "harness demo --plain": Typed(at=nothing),
    "harness setup": Typed(at=repository),
    "harness setup --yes": Typed(at=repository),
    "harness setup --yes --kind tasks --hooks": Typed(at=repository),
    "harness setup --yes --kind features --spec SPEC.md": Typed(
        at=unplanned, first="export HARNESS_AGENT=command:my-agent"
    ),
    "harness init .": Typed(at=repository),
    "harness init --spec SPEC.md": Typed(at=unplanned, first="export HARNESS_AGENT=command:my-agent"),
    "harness init --spec SPEC.md --agent 'command:my-agent'": Typed(at=unplanned),
    "harness init --adopt": Typed(at=repository),
    'harness add "Add a limit" --validate "pytest -q"': Typed(at=repository),
    'harness add "Add rate limiting" --priority P0 --validate "pytest -q tests/test_limit.py"': Typed(at=tasks),
    'harness add "Add OAuth" --depends task-001 --timeout 120': Typed(at=tasks),
    'harness add "Rework the checks" --validate "sh check.sh" --may-change check.sh': Typed(at=tasks),
    "harness add --from tasks.jsonl": Typed(at=tasks),
    'harness add-feature "User can take the remainder"': Typed(at=features),
    'harness add-feature "Report as CSV" --depends-on 6 --step "Export" --step "Compare"': Typed(at=features),
    'harness add-feature "Split calc.py in two" --no-requires-red --priority 1': Typed(at=features),
    'harness add-feature "A dark theme" --verification hybrid --manual-check "The contrast is enough"': Typed(
        at=features
    ),
    "harness plan-features --spec MORE.md --agent 'command:my-agent'": Typed(at=planning),
    "harness import .taskmaster/tasks/tasks.json": Typed(at=repository, given="y\n"),
    "harness import ../other-project --yes": Typed(at=repository),
    "harness import PLAN.md --validate 'pytest -q' --yes": Typed(at=repository),
    "harness import github:acme/shop --label ready": Typed(at=repository, given="y\n"),
    "harness export": Typed(at=tasks),
    "harness export --to beads --out issues.jsonl": Typed(at=tasks),
    "harness export --to prd | less": Typed(at=tasks),
    "harness export --to features --out ../other/features.json": Typed(at=tasks),
    "harness help night": Typed(at=nothing),
    "harness help exit-codes": Typed(at=nothing),
    # work
    "harness run --dry-run": Typed(at=tasks),
    "harness run --until-done": Typed(at=honest_features, first="export HARNESS_AGENT=scripted:script.yaml"),
    "harness run --until-done --agent scripted:script.yaml": Typed(at=honest_features),
    "harness run --agent 'command:my-agent'": Typed(at=tasks),
    "harness run --max-tasks 5 --agent 'command:my-agent'": Typed(at=tasks),
    "harness verify --feature 3": Typed(at=built),
    "harness verify --all": Typed(at=built),
    "harness health": Typed(at=built),
    "harness cleanup --agent 'command:my-agent'": Typed(at=untidy),
    "harness drive -- claude 'Work on the harness task list: /harness run'": Typed(at=one_task),
    "harness scale 6": Typed(at=tasks, code=7),
    "harness cancel w3": Typed(at=tasks, code=7),
    "harness queue": Typed(at=tasks, code=7),
    "harness queue list --json": Typed(at=tasks, code=7),
    "harness queue hold task-003": Typed(at=tasks, code=7),
    "harness queue first '#5'": Typed(at=features, code=7),
    "harness queue release task-003": Typed(at=tasks, code=7),
    "harness queue drop task-003": Typed(at=tasks, code=7),
    "harness queue first task-003": Typed(at=tasks, code=7),
    "harness workspace": Typed(at=tasks),
    "harness workspace list": Typed(at=tasks),
    'cd "$(harness workspace path w3)"': Typed(at=tasks, first="harness run --workers 3 --agent command:my-agent || :"),
    "harness workspace prune": Typed(at=tasks),
    # many projects and machines
    "harness worker --engine temporal://127.0.0.1:7233/default?pool=big --remote /srv/git/shop.git --slots 8": Typed(
        at=tasks, code=4
    ),
    "harness engine check temporal://127.0.0.1:7233": Typed(at=tasks, code=4),
    "harness fleet add ~/src/shop": Typed(at=fleet, first="harness fleet remove ~/src/shop"),
    "harness fleet run": Typed(at=fleet, stops=True),
    "harness fleet run --once": Typed(at=fleet),
    "harness fleet status": Typed(at=fleet),
    "harness fleet status --json": Typed(at=fleet),
    "harness fleet list --json": Typed(at=fleet),
    "harness fleet pause": Typed(at=fleet),
    "harness fleet resume": Typed(at=fleet, first="harness fleet pause"),
    "harness fleet remove ~/src/shop": Typed(at=fleet),
    "harness fleet why ~/src/shop": Typed(at=fleet),
    # see
    "harness status": Typed(at=built),
    "harness status --json": Typed(at=tasks),
    "harness status --line": Typed(at=tasks),
    "harness watch --all": Typed(at=tasks),
    "harness serve --all --open": Typed(at=tasks, stops=True, code=130),
    "harness why 5": Typed(at=features),
    "harness diff S7 --stat": Typed(at=seventh, first=RUN),
    "harness costs --by day": Typed(at=tasks, first=RUN),
    "harness report --open": Typed(at=tasks, first=RUN),
    "harness log --follow": Typed(at=tasks, first=RUN, stops=True),
    "harness log --follow task-001": Typed(at=tasks, first=RUN, stops=True),
    "harness log --follow 3 --json": Typed(at=built, stops=True),
    'harness log query "library"': Typed(at=built),
    'harness log query "library" --since 2d': Typed(at=built),
    "harness log query --level critical --since 2d": Typed(at=tasks, first=RUN),
    "harness log query --session 7 --source actions --type cmd_run": Typed(at=features),
    'harness log query "pytest failed" --feature 3 --json': Typed(at=features),
    "harness log sessions": Typed(at=tasks, first=RUN),
    "harness log sessions --last 3": Typed(at=features),
    "harness log sessions --session 7 --json": Typed(at=seventh, first=RUN),
    "harness projects": Typed(at=tasks, first=RUN),
    "harness projects --forget ~/old-shop": Typed(
        at=tasks, first=f"cp -r . ~/old-shop && (cd ~/old-shop && {RUN}) && rm -r ~/old-shop"
    ),
    # decide
    "harness resume": Typed(at=tasks, first="harness pause"),
    "harness resume --choose retry": Typed(at=stuck),
    "harness resume --choose increase --budget 20": Typed(at=spent),
    "harness resume --choose accept-change --feature 3": Typed(at=protected),
    'harness say "Use SQLite, not a file."': Typed(at=tasks, first=RUN),
    'harness say "Leave the old API as it is." --json': Typed(at=tasks, first=RUN),
    'harness say --to task-003 "Mind the time zones."': Typed(at=tasks, first=RUN),
    'harness say --to w2 "Mind the time zones."': Typed(at=tasks, code=2),  # no such slot is at work
    "harness pause": Typed(at=tasks),
    'harness pause "I am reviewing"': Typed(at=features),
    'harness skip --feature 3 --reason "waits for the new API"': Typed(at=features),
    "harness skip --feature 3 --undo": Typed(at=features, first="harness skip --feature 3"),
    "harness override --feature 3 --passes true": Typed(at=features, given="y\n"),
    "harness manual-verify --feature 3": Typed(at=features, given="y\ny\ny\ny\n"),
    "harness take-over": Typed(at=features),
    "harness hand-back": Typed(at=features, first="harness take-over", given="y\n"),
    # undo and end
    "harness undo 3 --dry-run": Typed(at=built),
    "harness undo task-003": Typed(at=tasks, first="harness run --agent command:my-agent", given="y\n"),
    "harness undo S8": Typed(at=eighth, first=RUN, given="y\n"),
    "harness rescue list": Typed(at=tasks, first=FAILED),
    "harness rescue show rescue/task-001/1": Typed(at=tasks, first=FAILED),
    "harness rescue restore rescue/task-001/1 --to ../looked-at": Typed(at=tasks, first=FAILED),
    "harness rescue prune --older-than 30": Typed(at=tasks, first=FAILED),
    "harness end-maintenance": Typed(at=complete),
    "harness abort --yes": Typed(at=features),
    "harness uninstall --dry-run": Typed(at=tasks),
    "harness uninstall ../billing --yes": Typed(at=tasks, first="cp -r . ../billing"),
    # settings
    "harness config": Typed(at=features),
    "harness config --show-origin": Typed(at=features),
    "harness config costs": Typed(at=features),
    "harness agents --json": Typed(at=nothing),
    "harness limits": Typed(at=nothing),
    "harness limits --host": Typed(at=nothing),
    "harness limits clear claude-code": Typed(at=nothing),
    "harness limits clear --all": Typed(at=nothing),
    "harness limits clear openai:key-12ab34cd56ef": Typed(at=nothing),
    "harness limits clear codex": Typed(at=nothing),
    "harness notify add webhook:https://hooks.example.org/harness": Typed(at=nothing),
    "harness notify add 'command:notify-send'": Typed(at=nothing),
    "harness notify add 'ntfy://ntfy.example.org/my-topic'": Typed(at=nothing),
    "harness notify remove 'command:notify-send'": Typed(at=nothing, first="harness notify add command:notify-send"),
    "harness notify set --quiet 22:00-07:00": Typed(at=nothing),
    "harness notify set --on question,stopped,done,limit --quiet 22:00-07:00 --urgent question": Typed(at=nothing),
    "harness notify test": Typed(at=nothing, first="harness notify add command:notify-send"),
    "harness notify check": Typed(at=tasks),
    "harness notify install >> lines-for-cron": Typed(at=nothing),
    "harness doctor": Typed(at=tasks),
    "harness doctor --fix": Typed(at=tasks),
    "harness completion bash --install": Typed(at=nothing),
    "source <(harness completion bash)": Typed(at=nothing),
    "harness migrate": Typed(at=features),
    "harness migrate --no-backup": Typed(at=features),
    "harness version": Typed(at=nothing),
    "harness selftest --only tautology": Typed(at=nothing),
    # for agents and clients
    "harness task next": Typed(at=tasks),
    "harness task claim": Typed(at=tasks, first="harness session start"),
    "harness task claim --lease 3600": Typed(at=tasks, first="harness session start"),
    'harness task checkpoint task-001 2/4 "routes"': Typed(at=tasks, first=CLAIM),
    'harness task checkpoint task-001 1/3 "routes written"': Typed(at=tasks, first=CLAIM),
    "harness task renew task-001": Typed(at=tasks, first=CLAIM),
    "harness task run-step task-001 --timeout 7200 -- make train": Typed(
        at=tasks, first=f"{CLAIM} && printf 'train:\\n\\ttouch trained\\n' > Makefile"
    ),
    "harness task validate task-001": Typed(at=tasks, first=f"{CLAIM} && touch made"),
    "harness task complete task-001": Typed(at=tasks, first=f"{CLAIM} && touch made"),
    "harness task accept task-001 check.sh": Typed(at=refused, first=f"{RUN} || true"),
    'harness task fail task-001 --category TEST_FAIL "why"': Typed(at=tasks, first=CLAIM),
    'harness task release task-001 "no time"': Typed(at=tasks, first=CLAIM),
    "harness task recover task-001 --decide resume": Typed(at=tasks, first=CLAIM),
    "harness task rollback task-001 --dry-run": Typed(at=tasks, first=f"{CLAIM} && touch made"),
    "harness task set task-001 priority=P0": Typed(at=tasks),
    "harness task reset --failed": Typed(at=tasks),
    "harness task stats --text": Typed(at=tasks),
    "harness session start": Typed(at=tasks),
    "harness session end": Typed(at=tasks, first="harness session start"),
    "harness hooks install --client claude-code": Typed(at=tasks),
    "harness hooks install --client codex --project": Typed(at=tasks),
    "harness hooks uninstall --client codex": Typed(at=tasks, first="harness hooks install --client codex"),
    "harness hooks install --git": Typed(at=repository),
    # judge a change
    "harness gate": Typed(at=repository, first=CHANGE),
    "harness gate --worktree": Typed(at=repository, first="echo '# more' >> src/calc.py"),
    "harness gate --base v1.2 --json": Typed(at=repository, first=f"git tag v1.2 && {CHANGE}"),
    'harness gate --check "python3 -m pytest -q" --allow pytest.ini': Typed(at=repository, first=CHANGE),
    "harness gate --history 20 --author claude --report history.html": Typed(
        at=repository,
        first="echo '# more' >> src/calc.py && git commit -qam More --author 'claude <claude@example.org>'",
    ),
    "harness audit receipts/*.json": Typed(
        at=repository, first=f"{CHANGE} && mkdir receipts && harness gate --receipt receipts/1.json"
    ),
    "harness audit receipt.json --signers allowed_signers": Typed(
        at=repository,
        first=f"{CHANGE} && ssh-keygen -q -t ed25519 -N '' -f key && echo \"me $(cat key.pub)\" > allowed_signers"
        " && harness gate --receipt receipt.json --sign key",
    ),
    "harness audit receipt.json --rerun --repo ../clone": Typed(
        at=repository, first=f"{CHANGE} && harness gate --receipt receipt.json && git clone -q . ../clone"
    ),
    "harness hooks print --client claude-code": Typed(at=nothing),
    "harness hook stop < payload.json": Typed(at=tasks),
    "claude mcp add harness -- harness mcp": Typed(at=tasks),
    "harness activate": Typed(at=tasks),
    "harness deactivate": Typed(at=tasks),
    # long tasks
    'lth init demo --objective "The build is green" --criterion-command "make test"': Typed(at=nothing),
    "lth validate demo": Typed(at=long_task),
    "lth next demo": Typed(at=long_task),
    "lth tick demo --dry-run": Typed(at=long_task),
    'lth run demo --worker local-command --command "make build"': Typed(at=long_task),
    "lth resume demo --worker command:my-agent": Typed(at=long_task),
    'lth record demo --status paused --note "Write the second part"': Typed(at=long_task),
    "lth evidence demo --type test --criterion-id verified-outcome --path report.txt --status passed": Typed(
        at=long_task
    ),
    "lth accept demo": Typed(at=long_task),
    "lth verify demo": Typed(at=long_task, first="lth run demo"),
    "lth rescue demo": Typed(at=long_task),
    'lth classify demo --text "429 Too Many Requests" --record': Typed(at=long_task),
    "lth health demo --strict": Typed(at=long_task),
    "lth status demo": Typed(at=long_task),
    "lth ls . --json": Typed(at=long_task),
    "lth summary demo --limit 3": Typed(at=long_task),
    "lth tail demo --type worker_completed": Typed(at=long_task),
    "lth schedule demo --print cron --every 10m": Typed(at=long_task),
    "lth openclaw-recipe demo --every 30m": Typed(at=long_task),
}
NOT_TYPED = {
    "harness export otel --to http://127.0.0.1:4318/v1/traces": "wants a receiver at that port of this machine",
    "harness worker --engine temporal://10.0.0.5:7233 --remote 'git@example.org:shop/*'": "names another machine",
    "harness engine check 'temporal://10.0.0.5:7233/default?pool=big&remote=origin' --json": "names another machine",
}
SLOW = ("harness demo", "harness demo --plain")


def examples() -> dict[str, list[str]]:
    """The examples in the help of each command, without what is said behind them."""
    found = {path: [*each.examples] for path, each in words.walk().items()}
    found["harness"] += [line.strip() for line in OF_HARNESS.splitlines()[1:] if line.strip()]
    found["harness hook"] = ["harness hook stop < payload.json"]  # of no completion, since no person types it
    return {path: [re.split(r"\s{2,}|\s#\s", line)[0] for line in lines] for path, lines in found.items()}


def test_every_command_has_an_example_that_is_typed() -> None:
    """F-HELP-1: none is without, and none is written that nobody types but for a reason."""
    found = examples()
    groups = [path for path, each in words.walk().items() if each.verbs]
    without = [path for path, lines in found.items() if not set(lines) & set(PREPARED) and path not in groups]
    assert without == []
    written = {line for lines in found.values() for line in lines}
    assert sorted(written - set(PREPARED) - set(NOT_TYPED)) == []
    assert sorted((set(PREPARED) | set(NOT_TYPED)) - written) == []


def command_of(line: str) -> str:
    """The command that an example is about, as ``words.walk`` names it; nothing for a line of a shell."""
    said, known = line.split(), words.walk()
    found = (" ".join(said[:count]) for count in range(len(said), 0, -1))
    return next((each for each in found if each in known), "")


@pytest.mark.exhaustive
def test_no_example_says_an_option_that_its_command_does_not_have() -> None:
    known = words.walk()
    for example in {each for lines in examples().values() for each in lines}:
        line = example.replace("log --follow", "log follow")  # two spellings of one command
        command = command_of(line)
        said = itertools.takewhile(lambda word: word not in {"--", "|", ">>"}, shlex.split(line) if command else ())
        assert {word for word in said if word.startswith("--")} <= {*known[command].options} if command else True, line


def of_another() -> set[str]:
    """The examples of a group, such as ``harness queue``, that has one before, which is typed in CI."""
    found = {group_of(line): line for line in reversed(PREPARED)}
    return {line for line in PREPARED if (group := group_of(line)) and found[group] != line}


def group_of(line: str) -> str:
    """The command, or the group of its verb; nothing for a line of a shell, and for a long task."""
    return "" if line.startswith("lth") else " ".join(command_of(line).split()[:2])


def typed(line: str, place: Place, *, given: str = "", stops: bool = False) -> tuple[int, str]:
    """The exit code of a line in a shell, and what it printed."""
    with subprocess.Popen(
        ["bash", "-c", line],
        cwd=place.folder,
        env=dict(place.environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        assert shell.stdout is not None
        try:
            said = shell.stdout.readline() if stops else ""
            if stops:
                os.killpg(shell.pid, signal.SIGINT)
            said += shell.communicate(None if stops else given, timeout=SECONDS)[0]
        finally:
            if shell.poll() is None:
                os.killpg(shell.pid, signal.SIGKILL)
    return shell.returncode, said


def marks(line: str) -> list[pytest.MarkDecorator]:
    if line in SLOW:
        return [pytest.mark.slow]
    return [pytest.mark.scenario, *([pytest.mark.exhaustive] if line in OF_ANOTHER else [])]


OF_ANOTHER = of_another()


@pytest.mark.exhaustive
@pytest.mark.parametrize("line", [pytest.param(line, marks=marks(line)) for line in PREPARED])
def test_an_example_does_what_it_is_shown_for(
    line: str, tmp_path: Path, places: Callable[[Callable[[Path], Place]], Place]
) -> None:
    """F-HELP-1: typed as it stands there."""
    example = PREPARED[line]
    place = places(built) if example.at is built else example.at(tmp_path)
    with serve("acme/shop") as hub:
        hub.add("Sell it", "", labels=("ready",))
        place = Place(
            folder=place.folder, environ={**place.environ, "GITHUB_API_URL": hub.url, "GITHUB_TOKEN": hub.token}
        )
        whole = f"{{ {example.first}; }} > /dev/null && {line}" if example.first else line
        code, said = typed(whole, place, given=example.given, stops=example.stops)
    assert code == example.code, said
    assert "Traceback" not in said
