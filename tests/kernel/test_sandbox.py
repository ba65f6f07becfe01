"""Sandboxes: what commands reach in them, that all of a command still ends, and what is said where there is none."""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import ConfigurationError, Refused
from agent_harness.kernel import process
from agent_harness.kernel.process import sandbox
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.sandbox import SandboxSettings
from agent_harness.kernel.temporary import TemporaryFolder

Run = Callable[..., process.Completed]


@pytest.fixture(params=sandbox.KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kind that this machine offers."""
    monkeypatch.setenv("HARNESS_SANDBOX", request.param)
    try:
        sandbox.kind_for(sandbox.AUTO)
    except Refused:
        pytest.skip(f"this machine has no {request.param}")
    return request.param


@pytest.fixture
def home() -> Path:
    """A home in which a person has settings, and the harness its state."""
    place = Path(os.environ["HOME"])
    for folder in (".local/state/agent-harness", ".local/share", ".ssh", ".cache", ".claude", ".config/tool"):
        (place / folder).mkdir(parents=True, exist_ok=True)
    (place / ".bashrc").write_text("# of a person\n")
    return place


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def run(command: str, cwd: Path, confined: Sandbox | None, **variables: str) -> process.Completed:
    env = {**process.scrubbed_environment(), **variables}
    return process.run(command, cwd=cwd, env=env, timeout_seconds=60, sandbox=confined)


def refused(command: str, cwd: Path, confined: Sandbox | None) -> bool:
    """Whether the command fails in the sandbox, and works without one."""
    inside = run(command, cwd, confined).exit_code
    return inside != 0 and run(command, cwd, None).exit_code == 0


def test_an_agent_cannot_change_what_decides_over_it(kind: str, home: Path, project: Path) -> None:
    confined = sandbox.of_agent([project])
    for command in (
        'git config --global core.hooksPath "$HOME/hooks"',
        'echo x > "$HOME/.local/state/agent-harness/proven.json"',
        'echo "exit 0" >> "$HOME/.bashrc"',
        'echo key > "$HOME/.ssh/authorized_keys"',
        'mkdir -p "$HOME/.config/git" && echo "* filter=x" > "$HOME/.config/git/attributes"',
        'mkdir -p "$HOME/.local/bin" && echo "#!/bin/sh" > "$HOME/.local/bin/git"',
    ):
        assert refused(command, project, confined), command


def test_a_file_is_moved_and_linked_from_one_folder_to_another(kind: str, home: Path, project: Path) -> None:
    """Each layer of Landlock rules denies that unless it allows it: no build works without."""
    moves = "import os; os.rename('a/x', 'b/x'); os.link('b/x', 'a/x')"
    of_check = (sandbox.of_check([project], temporary=project, namespaces=each)[0] for each in (True, False))
    for confined in (sandbox.of_agent([project]), *of_check):
        made = run("rm -rf a b && mkdir a b && touch a/x", project, None)
        moved = run(f'{sys.executable} -c "{moves}"', project, confined)
        assert (made.exit_code, moved.exit_code) == (0, 0), moved


def test_an_agent_cannot_patch_the_harness(kind: str, home: Path, project: Path) -> None:
    confined = sandbox.of_agent([project])
    package = Path(sandbox.__file__)
    assert run(f"test -r '{package}' && : >> '{package}'", project, confined).exit_code != 0
    assert run(f"touch '{package.parent}/planted.py'", project, confined).exit_code != 0
    assert run(f"touch '{sys.prefix}/planted.pth'", project, confined).exit_code != 0


def test_git_settings_and_a_folder_for_programs_that_are_not_there_cannot_be_made_either(
    kind: str, home: Path, project: Path
) -> None:
    (home / ".gitconfig").unlink()
    shutil.rmtree(home / ".local/bin", ignore_errors=True)
    confined = sandbox.of_agent([project])
    assert run("git config --global user.name Somebody", project, confined).exit_code != 0
    assert run('mkdir -p "$HOME/.local/bin"; echo x > "$HOME/.local/bin/git"', project, confined).exit_code != 0


def test_an_agent_does_its_work_where_it_always_did(kind: str, home: Path, project: Path) -> None:
    (scratch := home.parent / f"{home.name}-scratch").mkdir()
    done = run(
        "echo x > work && mkdir sub && mv work sub/work && echo x > $HOME/.claude/state && echo x > $HOME/.cache/pip"
        ' && git init -q . && echo x > "$(mktemp)" && echo x > /dev/null && : > /dev/shm/harness-test'
        " && rm /dev/shm/harness-test && git config --global user.name",
        project,
        sandbox.of_agent([project, scratch]),
        TMPDIR=str(scratch),
    )
    assert done.exit_code == 0, done.output
    assert done.output.decode().strip() == "Test Person"
    assert (project / "sub/work").read_text() == "x\n"


def test_git_of_a_work_tree_may_lie_elsewhere(kind: str, home: Path, tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    script = (
        f"git init -q '{main}' && cd '{main}' && git commit -q --allow-empty -m One && git worktree add -q '{linked}'"
    )
    assert run(script, tmp_path, None).exit_code == 0
    confined = sandbox.of_agent([linked, main / ".git"])
    assert run("echo x > new && git add new && git commit -q -m Two", linked, confined).exit_code == 0


def test_a_check_writes_to_its_own_places_only(kind: str, home: Path, project: Path, tmp_path: Path) -> None:
    own, scratch = home / ".cache/agent-harness/worktrees/one", tmp_path / "scratch"
    own.mkdir(parents=True)
    scratch.mkdir()
    confined, inside = sandbox.of_check([own], temporary=scratch, reads=[project])
    done = run('echo x > result && echo x > "$TMPDIR/t" && echo x > "$HOME/.cache/c"', own, confined, TMPDIR=inside)
    assert done.exit_code == 0, done.output
    assert (own / "result").exists()
    assert (scratch / "t").exists()
    for command in (
        f"echo x > '{project}/planted'",
        'echo x > "$HOME/planted"',
        'echo x > "$HOME/.config/tool/planted"',
        'echo x > "$HOME/.local/state/agent-harness/planted"',
        "git config --global user.name Somebody",
        *([] if kind == "landlock" else [f"mkdir -p '{home}/.cache/agent-harness/worktrees/another'"]),
    ):
        assert refused(command, own, confined), command


def test_a_check_sees_no_temporary_file_of_others_but_what_it_needs(
    kind: str, home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the project lies among the temporary files of all, its own part of them is there, and nothing beside."""
    if kind == "landlock":
        pytest.skip("Landlock hides nothing")
    monkeypatch.delenv("TMPDIR")  # the folder of all, in which the project lies
    monkeypatch.setattr(tempfile, "tempdir", None)
    top = next(each for each in (tmp_path, *tmp_path.parents) if each.parent == Path(tempfile.gettempdir()))
    with tempfile.NamedTemporaryFile(prefix="flag-") as flag, TemporaryFolder() as named, TemporaryFolder() as scratch:
        Path(named.path, "tool").touch()
        env = {"HOME": str(home), "PATH": os.defpath, "SERVER": f"unix:{named.path}/socket"}
        confined, inside = sandbox.of_check([project], temporary=scratch.path, environ=env)
        done = run(
            f"ls '{tempfile.gettempdir()}'; test ! -e '{flag.name}' && test -e '{named.path}/tool' && echo x > work"
            ' && echo x > "$TMPDIR/mine"',
            project,
            confined,
            TMPDIR=inside,
        )
        assert done.exit_code == 0, done.output
        seen = set(done.output.decode().split())
        assert {top.name, Path(named.path).name} <= seen
        assert Path(flag.name).name not in seen
        assert Path(scratch.path, "mine").exists()
        assert (project / "work").exists()


def test_a_check_reaches_no_network_but_its_own_loopback(kind: str, home: Path, project: Path, tmp_path: Path) -> None:
    if kind == "landlock":
        pytest.skip("Landlock cannot tell loopback from the rest")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        serve = (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)"
        )
        confined, _ = sandbox.of_check([project], temporary=tmp_path)
        assert run(f'{sys.executable} -c "{reach}"', project, confined).exit_code == 1
        assert run(f'{sys.executable} -c "{serve}"', project, confined).exit_code == 0
        opened, _ = sandbox.of_check([project], temporary=tmp_path, settings=SandboxSettings(network=sandbox.OPEN))
        assert run(f'{sys.executable} -c "{reach}"', project, opened).exit_code == 0


def test_settings_open_further_places(kind: str, home: Path, project: Path, tmp_path: Path) -> None:
    further = SandboxSettings(writable=("~/.ssh", str(home / ".config/tool")))
    script = "echo x > ~/.ssh/known_hosts && echo x > ~/.config/tool/settings"
    assert run(script, project, sandbox.of_agent([project], settings=further)).exit_code == 0
    confined, _ = sandbox.of_check([project], temporary=tmp_path, settings=further)
    assert run(script, project, confined).exit_code == 0


def test_nothing_of_a_sandbox_can_be_undone_from_inside(kind: str, home: Path, project: Path) -> None:
    confined = sandbox.of_agent([project])
    script = (
        'umount "$HOME/.ssh"; mount -o remount,bind,rw "$HOME/.ssh"; mv "$HOME/.ssh" "$HOME/.old";'
        ' unshare -Urm sh -c \'umount "$HOME/.ssh"; mount -o remount,bind,rw "$HOME/.ssh"; echo x > "$HOME/.ssh/new"\';'
        ' mkdir -p "$HOME/.ssh"; echo x > "$HOME/.ssh/new"'
    )
    assert run(script, project, confined).exit_code != 0
    assert not list((home / ".ssh").iterdir())


def test_no_signal_reaches_the_harness_or_its_lifeline(kind: str, home: Path, project: Path) -> None:
    if kind != "bubblewrap" and not _has_scopes():
        pytest.skip("this kernel knows no scopes of signals")
    with process.start(
        "kill -9 $PPID $HARNESS; echo tried; sleep 600",
        cwd=project,
        env={**process.scrubbed_environment(), "HARNESS": str(os.getpid())},
        sandbox=sandbox.of_agent([project]),
    ) as running:
        lines = [running.read_line(30) for _ in range(3)]
        while b"tried" not in lines:
            lines.append(running.read_line(30))
        assert not running.exited


def test_what_another_command_left_running_is_not_an_agents_to_end(kind: str, home: Path, project: Path) -> None:
    """Such as a server that init.sh has started; the harness ends it."""
    if kind == "bubblewrap" or not _has_scopes():
        pytest.skip("its processes have other numbers in there, or this kernel knows no scopes of signals")
    env = process.scrubbed_environment()
    script = "sleep 600 & echo $! > server.pid"
    confined = sandbox.of_agent([project], installs=True)
    with process.start(script, cwd=project, env=env, keep_background=True, sandbox=confined) as server:
        assert server.wait(60) == 0
        done = run("kill $(cat server.pid)", project, sandbox.of_agent([project]))
        assert done.exit_code != 0
        assert run("kill -0 $(cat server.pid)", project, None).exit_code == 0
        server.stop(0)


def _has_scopes() -> bool:
    from agent_harness.kernel.process.confinement import landlock_abi

    return landlock_abi() >= 6


def test_everything_ends_with_the_command(kind: str, home: Path, project: Path) -> None:
    mark = f"sleep 98765.{os.getpid()}"
    script = f"env -i setsid sh -c '{mark} & {mark}' >/dev/null 2>&1 & sleep 0.2; echo started"
    done = run(script, project, sandbox.of_agent([project]))
    assert done.exit_code == 0
    assert not _running(mark)


def test_everything_ends_when_the_harness_is_killed(kind: str, home: Path, project: Path) -> None:
    mark = f"sleep 87654.{os.getpid()}"
    script = (
        "import os\n"
        "from agent_harness.kernel import process\n"
        "from agent_harness.kernel.process import sandbox\n"
        f"box = sandbox.of_agent([{str(project)!r}])\n"
        f"env = process.scrubbed_environment()\n"
        f"running = process.start({mark!r}, cwd={str(project)!r}, env=env, sandbox=box)\n"
        "print('up', flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = process.run([sys.executable, "-c", script], cwd=project, env=dict(os.environ), timeout_seconds=60)
    assert b"up" in done.output
    until = time.monotonic() + 20
    while _running(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _running(mark)


def _running(mark: str) -> bool:
    import psutil

    wanted = mark.split()
    return any(each.info["cmdline"] == wanted for each in psutil.process_iter(["cmdline"]))


def test_a_command_has_its_grace(kind: str, home: Path, project: Path) -> None:
    script = "trap 'echo graceful > farewell; exit 3' TERM; echo up; while :; do sleep 0.05; done"
    with process.start(
        script, cwd=project, env=process.scrubbed_environment(), sandbox=sandbox.of_agent([project])
    ) as running:
        assert running.read_line(30) == b"up"
        running.stop(grace_seconds=20)
        assert running.exit_code == 3
    assert (project / "farewell").read_text() == "graceful\n"


def test_exit_codes_and_streams_are_those_of_the_command(kind: str, home: Path, project: Path) -> None:
    confined = sandbox.of_agent([project])
    errors: list[bytes] = []
    done = process.run(
        "cat; echo wrong >&2; exit 7",
        cwd=project,
        env=process.scrubbed_environment(),
        timeout_seconds=60,
        input=b"given\n",
        on_errors=errors.append,
        sandbox=confined,
    )
    assert (done.exit_code, done.output, b"".join(errors)) == (7, b"given\n", b"wrong\n")


def test_without_a_sandbox_it_runs_and_says_so(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    confined = sandbox.of_agent([project])
    assert confined.name == "none"
    assert run('echo x > "$HOME/.ssh/new"', project, confined).exit_code == 0
    assert sandbox.told() == "none"
    assert "all rights" in sandbox.covers(sandbox.kind_for(sandbox.AUTO))


def test_where_nothing_works_a_required_sandbox_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "KINDS", ("bubblewrap",))  # a machine that offers no other
    monkeypatch.setenv("PATH", "/nowhere")
    sandbox._found.cache_clear()
    try:
        assert sandbox.found() is None
        assert sandbox.kind_for(SandboxSettings(mode="auto")) is None
        with pytest.raises(Refused, match="none works on this machine"):
            sandbox.kind_for(SandboxSettings(mode="required"))
    finally:
        sandbox._found.cache_clear()


def test_a_variable_wins_over_the_settings_and_must_be_a_known_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    assert sandbox.kind_for(SandboxSettings(mode="required")) is None
    monkeypatch.setenv("HARNESS_SANDBOX", "perhaps")
    with pytest.raises(ConfigurationError, match="perhaps"):
        sandbox.kind_for(sandbox.AUTO)


def test_the_machine_is_asked_once_a_boot(home: Path) -> None:
    sandbox._found.cache_clear()
    first = sandbox.found()
    noted = json.loads((home / ".local/state/agent-harness/sandbox/tried.json").read_text())
    assert noted["kind"] == first
    sandbox._found.cache_clear()
    (home / ".local/state/agent-harness/sandbox/tried.json").write_text(json.dumps({**noted, "kind": None}))
    assert sandbox.found() is None  # the note was read
    sandbox._found.cache_clear()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, SandboxSettings()),
        ("off", SandboxSettings(mode="off")),
        (False, SandboxSettings(mode="off")),
        ("whatever", SandboxSettings()),
        (
            {"mode": "required", "writable": ["/opt/data", 3], "network": "open"},
            SandboxSettings(mode="required", writable=("/opt/data",), network="open"),
        ),
        ({"network": 5, "writable": "x"}, SandboxSettings()),
    ],
)
def test_settings_of_a_file(given: object, wanted: SandboxSettings) -> None:
    assert sandbox.settings_from(given) == wanted
