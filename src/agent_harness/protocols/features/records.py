"""Classes that give access to the JSON objects in the state files. A save keeps unknown members and the order of all
members. The classes are not dataclasses, because importing ``dataclasses`` would slow down ``status``. Source:
features.md sections F, G, H."""

from agent_harness.kernel.json import number_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from agent_harness.kernel.json import JsonObject

HARNESS_VERSION = "1.2.1"
SCHEMA_VERSION = 3

INSTRUCTIONS = (
    "IMPORTANT: Only change 'passes' from false to true after the test_file passes. "
    "Never remove or edit feature descriptions. Max 1 feature per session."
)


NO_ID = -1
"""Id of a feature whose id in the file is not a whole number. ``problems`` reports such a feature."""

VERIFICATION_TYPES = ("automated", "hybrid", "manual")


# -- parsers of values -----------------------------------------------------------------------------------------------


def number(value: object, otherwise: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise


def amount(value: object) -> float:
    return number_below(value, 1e12) or 0.0


def json_object(value: object) -> "JsonObject | None":
    return value if isinstance(value, dict) else None


def texts(value: object) -> tuple[str, ...]:
    return tuple(str(each) for each in value) if isinstance(value, list) else ()


def ids(value: object) -> tuple[int, ...]:
    return tuple(each for each in value if isinstance(each, int)) if isinstance(value, list) else ()


# -- features.json ---------------------------------------------------------------------------------------------------


class Feature:
    __slots__ = ("depends_on", "description", "id", "name", "passes", "record", "skipped", "steps", "test_file")

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
    def awaits_person(self) -> bool:
        """True if the feature's code is merged and a person must still confirm the feature (C13)."""
        return bool(self.record.get("awaiting_manual"))

    @property
    def accepted_in(self) -> int | None:
        """Number of the session whose merged work still needs a person's confirmation."""
        session = (json_object(self.record.get("awaiting_manual")) or {}).get("session")
        return session if isinstance(session, int) else None

    @property
    def is_open(self) -> bool:
        """True if the feature is not passing, not skipped, and not waiting for a person."""
        return not (self.passes or self.skipped or self.awaits_person)

    @property
    def skip_reason(self) -> str:
        found = json_object(self.record.get("skipped")) or {}
        return " ".join(str(found.get("reason") or "").split())

    @property
    def unblocks(self) -> bool:
        """True if the feature was skipped after a regression, so that its dependents can start (C53)."""
        return self.skipped and self.record["skipped"].get("unblocks") is True

    @property
    def marked_by_person(self) -> bool:
        """True if a person marked the feature as passing."""
        return isinstance(self.record.get("marked"), dict)

    @property
    def priority(self) -> float:
        """Priority of the feature. The lowest value is selected first (UAH-106)."""
        found = self.record.get("priority")
        return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else float("inf")

    @property
    def verification_type(self) -> str:
        """Kind of verification that the feature needs (UAH-403)."""
        found = self.record.get("verification_type")
        return found if isinstance(found, str) and found in VERIFICATION_TYPES else "automated"

    @property
    def requires_red(self) -> bool:
        """True if the feature's tests must have failed before the agent's work."""
        return self.record.get("requires_red") is not False

    @property
    def may_change(self) -> tuple[str, ...]:
        """Patterns of protected files that sessions on this feature are allowed to change."""
        return texts(self.record.get("may_change"))

    @property
    def details(self) -> str:
        """Long description of an imported feature."""
        found = self.record.get("details")
        return found if isinstance(found, str) else ""

    @property
    def automated_checks(self) -> tuple[str, ...]:
        """Checks that the agent must complete before a person confirms the feature."""
        return texts(self.record.get("automated_checks"))

    @property
    def manual_checks(self) -> tuple[str, ...]:
        return texts(self.record.get("manual_checks"))

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
        found = record.get("features")
        self.features = [Feature(f) for f in found if isinstance(f, dict)] if isinstance(found, list) else []

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


class SessionState:
    """Content of session_state.json, with default values for missing members (UAH-115..125)."""

    def __init__(self, record: "JsonObject") -> None:
        self.record = found = {**NEW_STATE, **record}
        current, commit, red = found["current_feature"], found["wip_commit"], found["wip_red_tests"]
        failures = json_object(found["verification_failures"]) or {}
        self.last_session = number(found["last_session"])
        self.status = _text(found["status"])  # complete, partial, failed
        self.current_feature = current if isinstance(current, int) else None
        self.termination_reason = _text(found["termination_reason"])
        self.next_prompt = _text(found["next_prompt"])  # coding, continuation, cleanup
        self.stuck_count = number(found["stuck_count"])
        self.failures = {str(k): n for k, n in failures.items() if isinstance(n, int)}  # rejected claims by feature
        self.timeout_count = number(found["timeout_count"])
        self.paused = _asked(found["paused"], {"reason": "paused"})
        self.handoff = _asked(found["handoff"], {})
        asked = json_object(found["pending_escalation"])
        self.question = None if asked is None else Question(asked)
        kept = found["kept_candidates"] if isinstance(found["kept_candidates"], list) else []
        asked_about = [Question(row) for row in kept if isinstance(row, dict)]  # at most one per feature
        self.kept_candidates = [each for each in asked_about if each.feature_id is not None and each.options]
        self.sizes_accepted = ids(found["sizes_accepted"])
        self.fix_first = ids(found["fix_first"])
        self.feature_checkpoint = json_object(found["feature_checkpoint"])  # from before the unfinished feature
        self.wip_commit = commit if isinstance(commit, str) else None
        self.red_tests = None if red is None else texts(red)  # ``None``: not counted yet (C15)
        self.partial = json_object(found["partial"])  # done, left and in progress
        self.last_failure = _text(found["last_failure"])
        self.summary = json_object(found["last_session_summary"])  # completed, commits, status
        self.cleaned_up_at = number(found.get("cleaned_up_at"))

    def but(self, **members: object) -> "SessionState":
        if unknown := members.keys() - {*NEW_STATE, "cleaned_up_at"}:
            raise TypeError(f"session_state.json has no member {min(unknown)}")
        return SessionState({**self.record, **members})


NEW_STATE: "JsonObject" = {
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
    "kept_candidates": [],
    "sizes_accepted": [],
    "fix_first": [],
    "feature_checkpoint": None,
    "wip_commit": None,
    "wip_red_tests": [],
    "partial": None,
    "last_failure": None,
    "last_session_summary": None,
}

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
        feature = record.get("feature_id")
        self.kind = str(record.get("type"))
        self.message = str(record.get("message"))
        self.options = texts(record.get("options"))  # those of a version with fewer options are kept
        self.feature_id = feature if isinstance(feature, int) else None
        self.features = ids(record.get("features")) or ids([feature])  # that it is about
        self.details = texts(record.get("details"))  # said below the message
        self.failing = texts(record.get("failing"))  # tests
        self.session = record.get("session")
        self.rescue_ref = _text(record.get("rescue_ref"))  # keeps the session's work
        self.commit = _text(record.get("commit"))  # the candidate that is kept until the answer
        self.ref = _text(record.get("ref"))  # names it
        self.paths = texts(record.get("paths"))  # protected files that it changes
        self.limit = _text(record.get("limit"))  # the budget that it ran over: Session, Feature, Project
        self.title = _text(record.get("title"))


def listed(names: "Collection[str]", most: int) -> str:
    shown = ", ".join(list(names)[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def counts(value: object) -> dict[str, int]:
    found = json_object(value) or {}
    return {str(name): number for name, number in found.items() if isinstance(number, int)}


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


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _asked(value: object, unreadable: "JsonObject") -> "JsonObject | None":
    return value if isinstance(value, dict) else unreadable if value else None


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
        self.cumulative = found = json_object(record.get("cumulative")) or {}
        current, rows = json_object(record.get("current_session")) or {}, found.get("by_feature")
        unpriced = "cost_usd" in current and current["cost_usd"] is None
        self.total_usd = amount(found.get("total_cost_usd"))
        self.assumed_usd = amount(found.get("assumed_cost_usd"))  # assumed for calls of unknown price (C58)
        self.unpriced_sessions = int(amount(found.get("sessions_of_unknown_price")))
        # no session reported tokens or a cost
        self.silent = tells_nothing(found.get("total_tokens"), self.total_usd) and not self.unpriced_sessions
        unpriced = unpriced or tells_nothing(current.get("tokens"), current.get("cost_usd"))
        self.last_session_usd = None if unpriced else amount(current.get("cost_usd"))
        self.by_feature = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
