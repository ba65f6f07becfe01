"""One harness at a time in a project: the lock that sessions and people's verbs take.

Source: features.md C56.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from agent_harness.errors import Busy
from agent_harness.kernel.lock import Lock
from agent_harness.protocols.features import migrations, worktree
from agent_harness.protocols.features.engine import recover
from agent_harness.protocols.features.project import Project

LOCK_SECONDS = 0.5


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """The block has the project to itself; ``Busy`` when another harness is at work here."""
    name = project.layout.relative(project.layout.lock)
    lock = Lock(project.root, file=name, compatible=False, timeout_seconds=LOCK_SECONDS)
    try:
        lock.acquire()
    except Busy:
        raise Busy("Another harness is running in this project", hint="harness status") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def settled(project: Project) -> Iterator[None]:
    """The block has an initialised project to itself, of this schema, every interrupted session made whole."""
    project.require_initialised()
    with locked(project):
        if note := project.store.settle_in():
            project.say(note)
        worktree.keep_out_of_sight(project.git, project.state_name)
        migrations.bring_up_to_date(project)
        recover.recover(project)
        yield
