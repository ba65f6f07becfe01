"""``harness status``: the answer from the state files, on the hot path."""

from agent_harness.errors import HarnessError, NotAProject, StateDamaged

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.features.layout import FeatureLayout


NO_PROJECT = "No project here or above: no features.json with .harness.yaml"
NOTHING_HERE = "No project here or above: no harness-tasks.json, and no features.json with .harness.yaml"
HOW_TO_BEGIN = "harness init .   (a task list)   or   harness init --spec FILE   (a feature project)"


def main(as_json: bool) -> int:
    """Prints where the project stands; exit 0 also when nothing is under way."""
    from agent_harness.cli import failure

    try:
        return _answer(as_json)
    except HarnessError as error:
        return failure.show(error, as_json=as_json)
    except BrokenPipeError:
        raise  # whoever was to read the answer has gone away
    except OSError as error:
        return failure.show(HarnessError(f"{error.filename or 'disk'}: {error.strerror}"), as_json=as_json)


def _answer(as_json: bool) -> int:
    from agent_harness.kernel import root

    found = root.find()
    if found is not None and found.kind == "tasklist":
        return _task_list(found.path, as_json)
    return _features(as_json)


def _task_list(folder: str, as_json: bool) -> int:
    from agent_harness.protocols.tasklist import api

    found = api.status(folder)
    if as_json:
        from agent_harness.kernel.json import jsontext

        print(jsontext.spaced({"ok": True, "verb": "status", **found}))
    else:
        print("\n".join(api.lines(found)))
    return 0


def _features(as_json: bool) -> int:
    from agent_harness.protocols.features import status

    layout = find_layout(NOTHING_HERE, HOW_TO_BEGIN)
    try:
        found = status.read(layout, read_yaml=_read_yaml)
    except (TypeError, AttributeError, KeyError) as error:  # a file of another shape: say so, never a traceback
        raise StateDamaged(f"The state of {layout.root} has an unexpected shape ({error})") from None
    if as_json:
        import json

        print(json.dumps({"ok": True, **found}, ensure_ascii=False))
    else:
        print("\n".join(status.lines(found)))
    return 0


def _read_yaml(path: str) -> "dict[str, Any]":
    from agent_harness.protocols.features.config.file import read_object

    return read_object(path)


def find_layout(missing: str = NO_PROJECT, hint: str = "harness init --spec FILE") -> "FeatureLayout":
    """The feature project at or above the working directory; the words are those for a person where there is none."""
    from agent_harness.kernel import root
    from agent_harness.protocols.features.layout import FeatureLayout

    found = root.find()
    if found is None or found.kind != "features":
        raise NotAProject(missing, hint=hint)
    return _with_paths(FeatureLayout(found.path))


def _with_paths(layout: "FeatureLayout") -> "FeatureLayout":
    """The layout under ``paths:`` of the settings, which almost no project has."""
    try:
        with open(layout.settings, "rb") as file:
            moved = b"\npaths:" in b"\n" + file.read()
    except OSError:
        return layout
    if not moved:
        return layout
    from agent_harness.protocols.features.config import load
    from agent_harness.protocols.features.layout import FeatureLayout

    paths = load(layout.root).paths
    return FeatureLayout(layout.root, features=paths.features, progress=paths.progress, state_dir=paths.state_dir)
