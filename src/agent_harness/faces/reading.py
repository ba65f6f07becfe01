"""What looks at a project of any kind, in the values that all protocols share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.json import JsonObject
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.picture import PictureReader, ProjectPicture


def reader_of(kind: str, folder: str) -> PictureReader:
    """The reader of a project of this kind."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features.reader(features.layout_of(folder))
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.reader(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.reader(folder)


def followed_of(kind: str, folder: str) -> list[FollowedLog]:
    """The logs of a project of this kind that are shown as they grow."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features.followed(features.layout_of(folder))
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.followed(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.followed(folder)


def log_rows_of(kind: str, folder: str) -> Iterator[JsonObject]:
    """The rows of the log of a task list or a long task, the newest first."""
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.log_rows(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.log_rows(folder)


def parallel_of(kind: str, folder: str) -> str | None:
    """Where a project of this kind has what a run of several agents is at; ``None`` where there are none."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features.layout_of(folder).parallel
    if kind == "tasklist":
        from agent_harness.protocols.tasklist import api as task_list

        return task_list.parallel_file(folder)
    return None


def transcript_of(picture: ProjectPicture, item: str) -> str | None:
    """Where what the agent said in the last session on an item is kept; ``None`` where it is not."""
    if picture.kind == "features":
        from agent_harness.protocols.features import api as features

        return features.transcript(features.layout_of(picture.path), picture, item)
    if picture.kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.transcript(picture.path)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.transcript(picture.path, item)
