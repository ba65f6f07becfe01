"""``harness status``: the answer from the state files, on the hot path; and what looks at a project of any kind."""

from agent_harness.errors import HarnessError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from agent_harness.kernel.json import JsonObject
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.picture import PictureReader

NOTHING_HERE = "No project here or above: no harness-tasks.json, and no features.json with .harness.yaml"
HOW_TO_BEGIN = "harness init .   (a task list)   or   harness init --spec FILE   (a feature project)"


def main(as_json: bool, tail: int = 5) -> int:
    """Prints where the project stands; exit 0 also when nothing is under way. ``tail`` lines of a list's log."""
    from agent_harness.cli import failure

    try:
        return _answer(as_json, tail)
    except HarnessError as error:
        return failure.show(error, as_json=as_json)
    except BrokenPipeError:
        raise  # whoever was to read the answer has gone away
    except OSError as error:
        return failure.show(HarnessError(f"{error.filename or 'disk'}: {error.strerror}"), as_json=as_json)


def _answer(as_json: bool, tail: int) -> int:
    from agent_harness.kernel import root

    found = root.find()
    if found is not None and found.kind == "tasklist":
        return _task_list(found.path, as_json, tail)
    if found is not None and found.kind == "longtask":
        from agent_harness.errors import NotAProject

        raise NotAProject(f"A long task is here, at {found.path}", hint="lth status .")
    return _features(as_json)


def _task_list(folder: str, as_json: bool, tail: int) -> int:
    from agent_harness.protocols.tasklist import api

    found = api.status(folder, tail=tail)
    if as_json:
        from agent_harness.kernel.json import jsontext

        print(jsontext.spaced({"ok": True, "verb": "status", **found}))
    else:
        _show(api.lines(found))
    return 0


def _features(as_json: bool) -> int:
    from agent_harness.protocols.features import api

    found = api.status(api.find(NOTHING_HERE, HOW_TO_BEGIN))
    if as_json:
        import json

        print(json.dumps({"ok": True, **found}, ensure_ascii=False))
    else:
        _show(api.lines(found))
    return 0


def _show(lines: "list[str]") -> None:
    """Prints the lines, fit for a terminal."""
    from agent_harness.kernel.terminal import printable

    print("\n".join(map(printable, lines)))


def reader_of(kind: str, folder: str) -> "PictureReader":
    """What looks at a project of this kind in the values that all protocols share."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features.reader(features.layout_of(folder))
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.reader(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.reader(folder)


def followed_of(kind: str, folder: str) -> "list[FollowedLog]":
    """The logs of a project of this kind that are shown as they grow."""
    if kind == "features":
        from agent_harness.protocols.features import api as features

        return features.followed(features.layout_of(folder))
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.followed(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.followed(folder)


def log_rows_of(kind: str, folder: str) -> "Iterator[JsonObject]":
    """The rows of the log of a task list or a long task, the newest first."""
    if kind == "longtask":
        from agent_harness.protocols.longtask import api as long_task

        return long_task.log_rows(folder)
    from agent_harness.protocols.tasklist import api as task_list

    return task_list.log_rows(folder)
