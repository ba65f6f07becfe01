"""What the files of a feature project hold: plain JSON objects, checked, unknown members kept.

Records stay dictionaries, so that what a newer version or a person added survives every write. The functions here
read them safely, whatever types are found. Source: features.md sections F, G, H.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from agent_harness.kernel.json import JsonObject


HARNESS_VERSION = "1.2.1"
SCHEMA_VERSION = 3

INSTRUCTIONS = (
    "IMPORTANT: Only change 'passes' from false to true after the test_file passes. "
    "Never remove or edit feature descriptions. Max 1 feature per session."
)


def features_of(document: "Mapping[str, Any]") -> "list[JsonObject]":
    """The feature objects of features.json, in the order of the file; entries that are no objects are left out."""
    found = document.get("features")
    return [f for f in found if isinstance(f, dict)] if isinstance(found, list) else []


def feature_by_id(document: "Mapping[str, Any]", feature_id: int) -> "JsonObject | None":
    """The feature with this id, or ``None``."""
    return next((f for f in features_of(document) if f.get("id") == feature_id), None)


def passes(feature: "Mapping[str, Any]") -> bool:
    """True only for the JSON value ``true``."""
    return feature.get("passes") is True


def dependencies(feature: "Mapping[str, Any]") -> list[int]:
    """The ids in ``depends_on``; absent or null means none (UAH-098)."""
    found = feature.get("depends_on")
    return [i for i in found if isinstance(i, int)] if isinstance(found, list) else []


def description(feature: "Mapping[str, Any]") -> str:
    """The description on one line."""
    return " ".join(str(feature.get("description") or "").split())


def test_file(feature: "Mapping[str, Any]") -> str:
    """The feature's own test file, which may carry ``::node``; empty when it has none."""
    found = feature.get("test_file")
    return found if isinstance(found, str) else ""


def skipped(feature: "Mapping[str, Any]") -> bool:
    """A person took this feature out of the selection (C53)."""
    return isinstance(feature.get("skipped"), dict)


def counts(document: "Mapping[str, Any]") -> tuple[int, int]:
    """(features proven, all features)."""
    found = features_of(document)
    return sum(1 for f in found if passes(f)), len(found)


def percent(part: int, whole: int) -> int:
    """A floored whole percentage; 0 of 0 is 0 (UAH-054, C49)."""
    return 100 * part // whole if whole else 0


def problems(document: "Mapping[str, Any]", *, require_test_file: bool = True) -> list[str]:
    """Everything wrong with features.json, one line each, naming the feature and the field; empty when it is valid."""
    found = document.get("features")
    if not isinstance(found, list):
        return ["features.json: 'features' is not a list"]
    lines = [f"features.json: entry {n} of 'features' is not an object" for n, f in enumerate(found) if not _object(f)]
    seen: set[int] = set()
    for feature in features_of(document):
        lines += _feature_problems(feature, seen, require_test_file)
    return lines + _dependency_problems(features_of(document))


STEPS_OF_SIZE = {"small": 3, "medium": 5, "large": 7}
"""The most verification steps of each estimated size (UAH-099..101); an estimate only ever warns."""


def flags(document: "Mapping[str, Any]", *, max_steps: int) -> list[str]:
    """What is unwise but allowed: more steps than recommended, or than the estimated size has (UAH-113, C42)."""
    return [line for feature in features_of(document) for line in _unwise(feature, max_steps)]


def _unwise(feature: "Mapping[str, Any]", max_steps: int) -> "Iterator[str]":
    steps, size = len(_steps(feature)), feature.get("size_estimate")
    most = STEPS_OF_SIZE.get(size, max_steps) if isinstance(size, str) else max_steps
    name = f"Feature #{feature.get('id')}"
    if steps > max_steps:
        yield too_large(feature, max_steps)
    elif steps > most:
        yield f"{name} is called {size} and has {steps} verification steps ({size}: at most {most})."
    if size == "xlarge":
        yield f"{name} is called xlarge: split it."


def too_large(feature: "Mapping[str, Any]", max_steps: int) -> str:
    """What is said about a feature of too many steps."""
    return f"Feature #{feature.get('id')} has {len(_steps(feature))} verification steps (max recommended: {max_steps})."


def large(document: "Mapping[str, Any]", max_steps: int) -> "list[JsonObject]":
    """Features that are still to be done and have more steps than recommended."""
    found = [f for f in features_of(document) if isinstance(f.get("id"), int) and len(_steps(f)) > max_steps]
    return [f for f in found if not (passes(f) or skipped(f) or f.get("awaiting_manual"))]


def _steps(feature: "Mapping[str, Any]") -> "list[Any]":
    steps = feature.get("verification_steps")
    return steps if isinstance(steps, list) else []


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _feature_problems(feature: "JsonObject", seen: set[int], require_test_file: bool) -> "Iterator[str]":
    feature_id = feature.get("id")
    name = f"Feature #{feature_id}" if isinstance(feature_id, int) else f"Feature {feature_id!r}"
    if not isinstance(feature_id, int) or isinstance(feature_id, bool):
        yield f"{name}: 'id' is not a whole number"
    elif feature_id in seen:
        yield f"{name}: the id is used twice"
    else:
        seen.add(feature_id)
    if not description(feature):
        yield f"{name}: 'description' is missing"
    if require_test_file and not test_file(feature):
        yield f"{name}: 'test_file' is missing; every feature needs one"
    elif test_file(feature) and _leaves_the_project(test_file(feature)):
        yield f"{name}: 'test_file' {test_file(feature)!r} is not a path inside the project"
    if not isinstance(feature.get("passes", False), bool):
        yield f"{name}: 'passes' is neither true nor false"
    wanted = feature.get("depends_on")
    if wanted is not None and not (isinstance(wanted, list) and all(isinstance(i, int) for i in wanted)):
        yield f"{name}: 'depends_on' is not a list of feature ids"


def _leaves_the_project(path: str) -> bool:
    file = path.split("::", 1)[0]
    return file.startswith(("/", "-", "~")) or ".." in file.split("/") or "\0" in file or "\n" in file


def _dependency_problems(features: "Sequence[JsonObject]") -> list[str]:
    from agent_harness.kernel import graph

    work = {f["id"]: dependencies(f) for f in features if isinstance(f.get("id"), int)}
    lines = [f"Feature {one} depends on non-existent Feature {other}" for one, other in graph.missing(work)]
    lines += ["Dependency cycle detected: " + " → ".join(str(i) for i in path) for path in cycles(features)]
    return lines


def cycles(features: "Sequence[JsonObject]") -> "list[list[int]]":
    """Every circle of dependencies, first id again at its end; one that a skipped feature breaks is none (E8)."""
    from agent_harness.kernel import graph

    open_ones = [f for f in features if isinstance(f.get("id"), int) and not skipped(f)]
    ids = {f["id"] for f in open_ones}
    work = {f["id"]: [i for i in dependencies(f) if i in ids] for f in open_ones}
    return [list(path) for path in graph.cycles(work)]


def new_state() -> "JsonObject":
    """session_state.json after a successful ``init`` (UAH-115..125)."""
    return {
        "harness_version": HARNESS_VERSION,
        "schema_version": SCHEMA_VERSION,
        "last_session": 0,
        "status": "complete",
        "current_feature": None,
        "termination_reason": None,
        "next_prompt": "coding",
        "stuck_count": 0,
        "verification_failures": {},
        "timeout_count": 0,
        "timestamp": None,
        "paused": None,
        "handoff": None,
        "pending_escalation": None,
        "sizes_accepted": [],
        "fix_first": [],
        "feature_checkpoint": None,
        "wip_commit": None,
        "wip_red_tests": [],
        "partial": None,
        "last_failure": None,
        "last_session_summary": None,
    }


def new_baseline() -> "JsonObject":
    """test_baseline.json before anything passes (UAH-129, UAH-131)."""
    return {"session": 0, "timestamp": None, "passing_tests": [], "total_passing": 0, "total_tests": 0, "tree": None}


def number(value: object, otherwise: int = 0) -> int:
    """A whole number read from a file, or ``otherwise``."""
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
