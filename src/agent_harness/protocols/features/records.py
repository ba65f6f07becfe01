"""Classes that give access to the JSON objects in the state files. A save keeps unknown members and the order of all
members. The classes are not dataclasses, because importing ``dataclasses`` would slow down ``status``. Source:
features.md sections F, G, H."""

from agent_harness.kernel.json import json_object, member, members_of, number_below, objects_in, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import TypeVar

    from agent_harness.kernel.json import JsonObject

    T = TypeVar("T")

HARNESS_VERSION = "1.2.1"
SCHEMA_VERSION = 3

INSTRUCTIONS = (
    "IMPORTANT: Only change 'passes' from false to true after the test_file passes. "
    "Never remove or edit feature descriptions. Max 1 feature per session."
)


NO_ID = -1
"""Id of a feature whose id in the file is not a whole number. ``problems`` reports such a feature."""


# -- parsers of values -----------------------------------------------------------------------------------------------


def number(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def amount(value: object) -> float:
    return number_below(value, 1e12) or 0.0


def texts(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def ids(value: object) -> tuple[int, ...]:
    return tuple(each for each in value if isinstance(each, int)) if isinstance(value, list) else ()


def counts(value: object) -> dict[str, int]:
    return {str(name): number for name, number in members_of(value).items() if isinstance(number, int)}


def _feature_id(value: object) -> int | None:
    return value if isinstance(value, int) else None


# -- features.json ---------------------------------------------------------------------------------------------------


class Feature:
    __slots__ = ("depends_on", "description", "id", "name", "passes", "record", "skipped", "steps", "test_file")

    awaits_person = member("awaiting_manual", bool, "record")  # merged, and a person must still confirm it (C13)
    marked_by_person = member("marked", lambda found: isinstance(found, dict), "record")  # as passing
    # must its tests have failed before the agent's work?
    requires_red = member("requires_red", lambda found: found is not False, "record")
    may_change = member("may_change", texts, "record")  # patterns of protected files that its sessions may change
    details = member("details", lambda found: text(found) or "", "record")  # long description of an imported feature
    automated_checks = member("automated_checks", texts, "record")  # done by the agent before a person confirms
    manual_checks = member("manual_checks", texts, "record")

    def __init__(self, record: "JsonObject", name: str | None = None) -> None:
        self.record = record
        self.id = number(record.get("id"), NO_ID)
        self.name = name or f"Feature #{record.get('id')}"  # name for people
        self.description = " ".join(str(record.get("description") or "").split())  # on one line
        file = record.get("test_file")
        self.test_file = file if isinstance(file, str) else ""  # may carry ``::node``
        self.passes = record.get("passes") is True
        self.depends_on = ids(record.get("depends_on"))  # absent or null means none (UAH-098)
        self.steps = texts(record.get("verification_steps"))
        self.skipped = isinstance(record.get("skipped"), dict)  # a person took it out of the selection (C53)

    @property
    def has_id(self) -> bool:
        return self.id != NO_ID

    @property
    def asked(self) -> str:
        return ". ".join((self.description, *self.steps))

    @property
    def feature_id(self) -> int | None:
        """Id of the feature, or None for ``CLEANUP``, which only stands for cleanup sessions."""
        return None if self is CLEANUP else self.id

    @property
    def test_path(self) -> str:
        """Path of the feature's test file, without the ``::node`` suffix."""
        return self.test_file.split("::", 1)[0]

    @property
    def accepted_in(self) -> int | None:
        """Number of the session whose merged work still needs a person's confirmation."""
        return _feature_id(members_of(self.record.get("awaiting_manual")).get("session"))

    @property
    def is_open(self) -> bool:
        """True if the feature is not passing, not skipped, and not waiting for a person."""
        return not (self.passes or self.skipped or self.awaits_person)

    @property
    def skip_reason(self) -> str:
        found = members_of(self.record.get("skipped"))
        return " ".join(str(found.get("reason") or "").split())

    @property
    def unblocks(self) -> bool:
        """True if the feature was skipped after a regression, so that its dependents can start (C53)."""
        return self.skipped and self.record["skipped"].get("unblocks") is True

    @property
    def priority(self) -> float:
        """Priority of the feature. The lowest value is selected first (UAH-106)."""
        found = self.record.get("priority")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else float("inf")

    @property
    def verification_type(self) -> str:
        """Kind of verification that the feature needs (UAH-403)."""
        found = self.record.get("verification_type")
        return found if isinstance(found, str) and found in ("hybrid", "manual") else "automated"

    @property
    def visual_steps(self) -> tuple[str, ...] | None:
        """Steps to check the feature in a browser, or ``None`` if the feature turns off visual checks (UAH-447)."""
        found = json_object(self.record.get("visual_verification"))
        return texts(found.get("steps")) if found and found.get("enabled") else None


CLEANUP = Feature({"id": None, "description": "Cleanup session", "test_file": ""}, "The cleanup")
"""Placeholder for the feature of a cleanup session, which does not work on a feature."""


class FeatureList:
    """Content of features.json."""

    def __init__(self, record: "JsonObject") -> None:
        self.record = record
        self.features = [Feature(each) for each in objects_in(record.get("features"))]

    @property
    def project(self) -> str:
        return str(self.record.get("project") or "")

    @property
    def passing(self) -> list[Feature]:
        return [f for f in self.features if f.passes]

    def by_id(self, feature_id: int | None) -> Feature | None:
        return next((f for f in self.features if f.id == feature_id), None)

    def counts(self) -> tuple[int, int]:
        """Return two numbers: passing features and all features."""
        return len(self.passing), len(self.features)

    def next_id(self) -> int:
        return max((f.id for f in self.features if f.has_id), default=0) + 1


def percent(part: int, whole: int) -> int:
    """Return ``part`` as a percentage of ``whole``, rounded down (UAH-054, C49)."""
    return 100 * part // whole if whole else 0


def problems(document: FeatureList, *, require_test_file: bool = True) -> list[str]:
    """Return one line for each error in features.json."""
    from agent_harness.kernel import graph

    lines = malformed(document, require_test_file=require_test_file)
    if not isinstance(document.record.get("features"), list):
        return lines
    work = {f.id: f.depends_on for f in document.features if f.has_id}
    lines += [f"Feature {one} depends on non-existent Feature {other}" for one, other in graph.missing(work)]
    return lines + ["Dependency cycle detected: " + " → ".join(str(i) for i in path) for path in cycles(document)]


def malformed(document: FeatureList, *, require_test_file: bool = True) -> list[str]:
    found = document.record.get("features")
    if not isinstance(found, list):
        return ["features.json: 'features' is not a list"]
    lines = [
        f"features.json: entry {n} of 'features' is not an object"
        for n, each in enumerate(found)
        if not isinstance(each, dict)
    ]
    seen: set[int] = set()
    for feature in document.features:
        lines += _feature_problems(feature, seen, require_test_file)
    return lines


def _feature_problems(feature: Feature, seen: set[int], require_test_file: bool) -> "Iterator[str]":
    raw, file = feature.record, feature.test_path
    name = feature.name if isinstance(raw.get("id"), int) else f"Feature {raw.get('id')!r}"
    if not feature.has_id:
        yield f"{name}: 'id' is not a whole number"
    elif feature.id in seen:
        yield f"{name}: the id is used twice"
    else:
        seen.add(feature.id)
    if not feature.description:
        yield f"{name}: 'description' is missing"
    if require_test_file and not feature.test_file:
        yield f"{name}: 'test_file' is missing; every feature needs one"
    elif file.startswith(("/", "-", "~")) or ".." in file.split("/") or "\0" in file or "\n" in file:
        yield f"{name}: 'test_file' {feature.test_file!r} is not a path inside the project"
    if not isinstance(raw.get("passes", False), bool):
        yield f"{name}: 'passes' is neither true nor false"
    free = raw.get("may_change", [])
    if not (isinstance(free, list) and all(isinstance(each, str) and each.strip("/ ") for each in free)):
        yield f"{name}: 'may_change' is not a list of file patterns"
    wanted = raw.get("depends_on")
    if wanted is not None and not (isinstance(wanted, list) and all(isinstance(i, int) for i in wanted)):
        yield f"{name}: 'depends_on' is not a list of feature ids"


def cycles(document: FeatureList) -> list[list[int]]:
    """Return each dependency cycle as a list of feature ids (E8)."""
    from agent_harness.kernel import graph

    found = {f.id: f.depends_on for f in document.features if f.has_id and not f.skipped}
    work = {i: [each for each in needs if each in found] for i, needs in found.items()}
    return [list(path) for path in graph.cycles(work)]


STEPS_OF_SIZE = {"small": 3, "medium": 5, "large": 7}
"""Maximum number of verification steps per estimated size (UAH-099..101). A higher number only causes a warning."""


def flags(features: "Iterable[Feature]", *, max_steps: int) -> "Iterator[str]":
    """Yield a warning for each feature that has too many verification steps or is too large (UAH-113, C42)."""
    for feature in features:
        steps, size = len(feature.steps), feature.record.get("size_estimate")
        most = STEPS_OF_SIZE.get(size, max_steps) if isinstance(size, str) else max_steps
        if steps > max_steps:
            yield too_large(feature, max_steps)
        elif steps > most:
            yield f"{feature.name} is called {size} and has {steps} verification steps ({size}: at most {most})."
        if size == "xlarge":
            yield f"{feature.name} has the size xlarge. Split the feature."


def too_large(feature: Feature, max_steps: int) -> str:
    return f"{feature.name} has {len(feature.steps)} verification steps (max recommended: {max_steps})."


# -- the state of sessions -------------------------------------------------------------------------------------------


NEW_STATE: "JsonObject" = {"harness_version": HARNESS_VERSION, "schema_version": SCHEMA_VERSION}
"""Members of session_state.json with their default values, in the order in which they are written."""


def _stated(name: str, default: object, read: "Callable[[object], T]") -> "T":
    NEW_STATE[name] = default
    return member(name, read, "record")


def _asked(value: object, unreadable: "JsonObject") -> "JsonObject | None":
    return value if isinstance(value, dict) else unreadable if value else None


class SessionState:
    """Content of session_state.json, with default values for missing members (UAH-115..125)."""

    last_session = _stated("last_session", 0, number)
    status = _stated("status", "complete", text)  # complete, partial, failed
    current_feature = _stated("current_feature", None, _feature_id)
    termination_reason = _stated("termination_reason", None, text)
    next_prompt = _stated("next_prompt", "coding", text)  # coding, continuation, cleanup
    stuck_count = _stated("stuck_count", 0, number)
    failures = _stated("verification_failures", {}, counts)  # rejected claims by feature
    timeout_count = _stated("timeout_count", 0, number)
    timestamp = _stated("timestamp", None, text)
    paused = _stated("paused", None, lambda found: _asked(found, {"reason": "paused"}))
    handoff = _stated("handoff", None, lambda found: _asked(found, {}))
    _pending = _stated("pending_escalation", None, json_object)
    _kept = _stated("kept_candidates", [], objects_in)
    sizes_accepted = _stated("sizes_accepted", [], ids)
    fix_first = _stated("fix_first", [], ids)
    feature_checkpoint = _stated("feature_checkpoint", None, json_object)  # from before the unfinished feature
    wip_commit = _stated("wip_commit", None, text)
    # ``None``: not counted yet (C15)
    red_tests = _stated("wip_red_tests", [], lambda found: None if found is None else texts(found))
    partial = _stated("partial", None, json_object)  # done, left and in progress
    last_failure = _stated("last_failure", None, text)
    summary = _stated("last_session_summary", None, json_object)  # completed, commits, status
    cleaned_up_at = member("cleaned_up_at", number, "record")

    def __init__(self, record: "JsonObject") -> None:
        self.record = {**NEW_STATE, **record}
        self.question = None if self._pending is None else Question(self._pending)
        asked_about = [Question(row) for row in self._kept]  # at most one per feature
        self.kept_candidates = [each for each in asked_about if each.feature_id is not None and each.options]

    def but(self, **members: object) -> "SessionState":
        if unknown := members.keys() - {*NEW_STATE, "cleaned_up_at"}:
            raise TypeError(f"session_state.json has no member {min(unknown)}")
        return SessionState({**self.record, **members})


NOTHING_UNFINISHED: "JsonObject" = {
    "next_prompt": "coding",
    "partial": None,
    "feature_checkpoint": None,
    "wip_commit": None,
    "wip_red_tests": [],
}
"""Values that members of the session state have if there is no unfinished work."""


class Question:
    def __init__(self, record: "JsonObject") -> None:
        self.record = record
        self.kind = str(record.get("type"))
        self.message = str(record.get("message"))
        self.options = texts(record.get("options"))  # those of a version with fewer options are kept
        self.feature_id = _feature_id(record.get("feature_id"))
        self.features = ids(record.get("features")) or ids([self.feature_id])  # that it is about
        self.details = texts(record.get("details"))  # said below the message
        self.failing = texts(record.get("failing"))  # tests
        self.session = record.get("session")
        self.rescue_ref = text(record.get("rescue_ref"))  # keeps the session's work
        self.commit = text(record.get("commit"))  # the candidate that is kept until the answer
        self.ref = text(record.get("ref"))  # names it
        self.paths = texts(record.get("paths"))  # protected files that it changes
        self.limit = text(record.get("limit"))  # the budget that it ran over: Session, Feature, Project
        self.title = text(record.get("title"))


def listed(names: "Collection[str]", most: int) -> str:
    shown = ", ".join(list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


SHOWN_KINDS = 5
SHOWN_FILES = 3


def shown_kinds(kinds: "Mapping[str, int]") -> str:
    """Return the counts as text, such as ``3 F401, 2 E501, 4 others``."""
    ranked = sorted(kinds.items(), key=lambda row: (-row[1], row[0]))
    rest = sum(count for _, count in ranked[SHOWN_KINDS:])
    return ", ".join(
        [*(f"{count} {kind}" for kind, count in ranked[:SHOWN_KINDS]), *([f"{rest} others"] if rest else [])]
    )


def lint_line(errors: int, warnings: int, kinds: "Mapping[str, int]", files: "Mapping[str, int]") -> str:
    """Return the lint result as text, such as ``1 error, 2 warnings (2 W291, 1 F401) in a.py, b.py``."""
    numbers = ((errors, "error"), (warnings, "warning"))
    told = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in numbers)
    ranked = sorted(files, key=lambda path: (-files[path], path))
    rest = len(ranked[SHOWN_FILES:])
    named = [*ranked[:SHOWN_FILES], *([f"{rest} more file{'' if rest == 1 else 's'}"] if rest else [])]
    return told + (f" ({shown_kinds(kinds)})" if kinds else "") + (f" in {', '.join(named)}" if named else "")


class Baseline:
    """Content of test_baseline.json: passing tests, and the data files that those tests read (UAH-129, UAH-131)."""

    def __init__(self, record: "JsonObject") -> None:
        self.record = {**NEW_BASELINE, **record}
        self.passing = frozenset(texts(self.record["passing_tests"]))
        self.files_read = texts(self.record.get("files_read"))
        self.known_failures = frozenset(texts(self.record.get("known_failures")))  # of a project that was adopted

    def but(self, **members: object) -> "Baseline":
        return Baseline({**self.record, **members})

    def with_more(self, passing: "Iterable[str]", files_read: "Iterable[str]") -> "Baseline":
        found = sorted({*texts(self.record["passing_tests"]), *passing})
        return self.but(passing_tests=found, total_passing=len(found), files_read=sorted(files_read))

    def measured(self, passing: "Iterable[str]", total: int, **members: object) -> "Baseline":
        found = sorted(passing)
        return self.but(**{"passing_tests": found, "total_passing": len(found), "total_tests": total, **members})


NEW_BASELINE: "JsonObject" = {
    "session": 0,
    "timestamp": None,
    "passing_tests": [],
    "total_passing": 0,
    "total_tests": 0,
    "tree": None,
}


def tells_nothing(tokens: object, cost_usd: object) -> bool:
    """Return True if an agent worked but reported no tokens and no cost."""
    counted = json_object(tokens)
    return bool(counted) and not any(map(amount, counted.values())) and not amount(cost_usd)


class CostRecord:
    """Content of costs.yaml."""

    def __init__(self, record: "JsonObject") -> None:
        self.record = record
        self.cumulative = found = members_of(record.get("cumulative"))
        current = members_of(record.get("current_session"))
        unpriced = "cost_usd" in current and current["cost_usd"] is None
        self.total_usd = amount(found.get("total_cost_usd"))
        self.assumed_usd = amount(found.get("assumed_cost_usd"))  # assumed for calls of unknown price (C58)
        self.unpriced_sessions = int(amount(found.get("sessions_of_unknown_price")))
        # no session reported tokens or a cost
        self.silent = tells_nothing(found.get("total_tokens"), self.total_usd) and not self.unpriced_sessions
        unpriced = unpriced or tells_nothing(current.get("tokens"), current.get("cost_usd"))
        self.last_session_usd = None if unpriced else amount(current.get("cost_usd"))
        self.by_feature = objects_in(found.get("by_feature"))
