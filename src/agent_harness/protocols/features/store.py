"""State files and append-only logs. State files are written atomically under one lock. This module is the lowest layer
and uses only files: no git, agents or verification. Source: features.md sections F-H, C31."""

import os

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock, files, journal, trusted_state
from agent_harness.kernel.json import JsonObject, members_of, text
from agent_harness.kernel.shared_content import SharedContent
from agent_harness.protocols.features import records
from agent_harness.protocols.features.layout import FeatureLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


HISTORIES = ("events.jsonl", "sessions.jsonl", "decisions.jsonl", "usage.jsonl")
"""Log files whose content cannot be reconstructed if a file is lost."""


def _content(path: str) -> bytes:
    try:
        return files.read_bytes(path)
    except (OSError, StateDamaged):
        return b""


def _or_empty(path: str | None) -> "JsonObject":
    try:
        return files.read_json(path) if path else {}
    except (OSError, StateDamaged):
        return {}


def _read_or_backup(path: str) -> "JsonObject | None":
    try:
        return files.read_json(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except StateDamaged as error:
        try:
            return files.read_json(f"{path}.bak")
        except (OSError, StateDamaged):
            error.hint = f"mv {path} {path}.damaged"
            raise error from None


def _is_sampled(row: "Mapping[str, object]") -> bool:
    import zlib

    return zlib.crc32(repr(sorted(row.items())).encode("utf-8", "replace")) % SAMPLED_ONE_IN == 0


SAMPLED_ONE_IN = 10
LEVELS = ("critical", "important", "routine", "debug")
OPEN_SESSION = "open_session.json"
PROVEN = "proven.json"
PAUSE = "pause.json"
CLAIMS_OF_RUN = os.path.join("parallel", "claims.json")
"""Path of a parallel run's claims file, relative to the project's state folder outside the project."""
INSTALLED = "installed.json"
LEDGER = "verdicts.jsonl"
REVERSAL = "undo.json"


class FeatureStore:
    def __init__(
        self,
        layout: FeatureLayout,
        *,
        log_level: str = "important",
        read_yaml: "Callable[[str], JsonObject] | None" = None,
        by: str | None = None,
    ) -> None:
        """Open the store. ``read_yaml`` is used only if costs.yaml is not JSON."""
        self.layout = layout
        self.by: JsonObject = {"by": by} if by else {}
        self._read_yaml = read_yaml
        self._floor = LEVELS.index(log_level) if log_level in LEVELS else 1
        self._written: dict[str, bytes] = {}
        self._shared: dict[str, SharedContent] = {}
        self._open: JsonObject | None = None  # the running session of this process
        self._home: str | None = None

    # -- features.json -------------------------------------------------------------------------------------------

    def features(self) -> records.FeatureList:
        """Return features.json. Raise ``StateDamaged`` if the file is missing or malformed."""
        try:
            return records.FeatureList(files.read_json(self.layout.features))
        except FileNotFoundError:
            name = self.layout.relative(self.layout.features)
            raise StateDamaged(f"{name} is missing", hint="harness init --spec FILE") from None
        except StateDamaged as error:
            name = self.layout.relative(self.layout.features)
            error.hint = f"fix the file, or restore the committed version: git restore {name}"
            raise

    # -- session state -------------------------------------------------------------------------------------------

    def initialised(self) -> bool:
        return os.path.isfile(self.layout.session_state)

    def state(self) -> records.SessionState:
        return records.SessionState(self._read(self.layout.session_state))

    def write_state(self, state: records.SessionState) -> None:
        self.write(self.layout.session_state, state.record)

    def update_state(self, **members: object) -> records.SessionState:
        state = self.state().but(**members)
        self.write_state(state)
        return state

    def stored_state(self) -> "JsonObject":
        return self._read(self.layout.session_state)

    def baseline(self) -> records.Baseline:
        return records.Baseline(self._read(self.layout.baseline))

    def write_baseline(self, baseline: records.Baseline) -> None:
        self.write(self.layout.baseline, baseline.record)

    def file_sizes(self) -> "JsonObject":
        return self._read(self.layout.file_sizes)

    def quality(self) -> "JsonObject":
        return self._read(self.layout.quality)

    def issues(self) -> "JsonObject":
        return _or_empty(self.layout.github_issues)

    def costs(self) -> records.CostRecord:
        try:
            return records.CostRecord(self._read(self.layout.costs))
        except StateDamaged as error:
            if self._read_yaml is None:
                raise
            try:
                return records.CostRecord(self._read_yaml(self.layout.costs))
            except StateDamaged:
                raise error from None

    def write(self, path: str, value: "Mapping[str, Any]") -> None:
        """Replace a state file atomically. Keep the old file as a backup."""
        files.own_place(path, self.layout.root)
        files.own_place(f"{path}.bak", self.layout.root)
        files.write_json(path, dict(value), backup=True)
        self._written[path] = files.dumps(dict(value)).encode()

    def refresh(self) -> None:
        # a network disk may report the old stamp of a changed file
        self._shared.clear()

    def _read(self, path: str) -> "JsonObject":
        shared = self._shared.setdefault(path, SharedContent(path))
        try:
            return files.read_json(path, content=shared.read())
        except FileNotFoundError:
            return {}
        except StateDamaged as error:
            name = self.layout.relative(path)
            error.hint = f"cp {name}.bak {name}" if os.path.exists(f"{path}.bak") else f"fix {name} manually"
            raise error from None

    def sweep(self) -> None:
        """Remove temporary files that killed processes left. The caller must hold the lock."""
        kept = [path for name in (OPEN_SESSION, PROVEN, REVERSAL) if (path := self._trusted(name))]
        for path in (*self._guarded(), *kept, self.layout.features, self.layout.progress, self.layout.session_copy):
            files.sweep(path)

    # -- protection of the state against the agent (C31) ----------------------------------------------------------

    def hold(self) -> None:
        """Keep the content of all state files in memory, so that ``tampered`` can restore them."""
        held = {}
        for path in self._guarded():
            try:
                held[path] = files.read_bytes(path)
            except (OSError, StateDamaged):
                continue
        self._written = held
        self.keep_histories()

    def keep_histories(self) -> None:
        """Copy the logs to a folder that agents cannot change. Call this before an agent starts."""
        import shutil

        for name in HISTORIES:
            source, kept = self.layout.log(name), self._trusted(f"before-{name}")
            if kept and os.path.isfile(source) and not os.path.islink(source):
                try:
                    shutil.copyfile(source, kept)
                except OSError:  # a disk error: then there is no copy to restore
                    continue

    def put_back_histories(self) -> list[str]:
        """Restore the log rows that an agent removed. Return the names of those logs."""
        found = []
        for name in HISTORIES:
            path, kept = self.layout.log(name), self._trusted(f"before-{name}")
            before = _content(kept) if kept else b""
            links = any(os.path.islink(each) for each in (*files.folders_between(self.layout.root, path), path))
            now = b"" if links else _content(path)
            if before and (links or not now.startswith(before)):
                files.own_place(path, self.layout.root)
                known = {*before.splitlines(keepends=True)}
                since = (row for row in now.splitlines(keepends=True) if row not in known)
                files.replace(path, before + b"".join(row for row in since if row[:1] + row[-2:] == b"{}\n"))
                found.append(self.layout.relative(path))
        return found

    def tampered(self) -> list[str]:
        """Restore each state file that another process changed. Return the names of those files."""
        paths = dict.fromkeys((*self._guarded(), *self._written))
        return [self.layout.relative(path) for path in paths if self.restore(path, self._written.get(path))]

    def restore(self, path: str, expected: "bytes | None") -> bool:
        """Restore ``path`` to ``expected``, where None means no file. Return True if anything changed."""
        try:
            found = files.read_bytes(path)
        except (OSError, StateDamaged):
            found = None
        on_the_way = files.folders_between(self.layout.root, path)
        if found == expected and not any(os.path.islink(each) for each in (*on_the_way, path)):
            return False
        files.own_place(path, self.layout.root)
        if expected is not None:
            files.replace(path, expected)
        elif os.path.lexists(path):
            os.unlink(path)
        return True

    def _guarded(self) -> tuple[str, ...]:
        at = self.layout
        state = (at.session_state, at.baseline, at.costs, at.file_sizes, at.quality, at.github_issues)
        kept = (os.path.join(place, name) for place, _, names in os.walk(at.checkpoints) for name in names)
        return (*state, *kept)

    # -- the running session --------------------------------------------------------------------------------------

    def finalize_in(self) -> str | None:
        """Create the state folder outside the project. Return a note if the usual folder is unusable."""
        self._home, note = trusted_state.make(self.layout.git_dir, self.layout.root)
        return note

    def _trusted(self, name: str) -> str | None:
        folder = self.home()
        return os.path.join(folder, name) if folder else None

    def home(self) -> str | None:
        """Return the state folder outside the project, or None if that folder does not exist."""
        return self._home or trusted_state.existing(self.layout.git_dir, self.layout.root, writable=False)

    def now_path(self) -> str | None:
        return self._trusted("now.json")

    def open_session(self) -> "JsonObject | None":
        """Return the trusted record of the unfinished session, or None if no session is unfinished."""
        if self._open is not None:
            return self._open
        path = self._trusted(OPEN_SESSION)
        return _read_or_backup(path) if path else None

    def clear_places(self) -> None:
        """Restore the session record's folder in ``.git`` if an agent has replaced that folder."""
        if os.path.isdir(self.layout.git_dir):
            files.own_place(self.layout.session_copy, self.layout.git_dir)

    def session_copy(self) -> "JsonObject | None":
        """Return the untrusted session record in the project, None without such a record, {} if it is unreadable."""
        try:
            return _read_or_backup(self.layout.session_copy)
        except (OSError, StateDamaged):
            return {}

    def write_open_session(self, record: "Mapping[str, Any]") -> None:
        """Write durably the trusted session record and its copy in the project."""
        self._open = dict(record)
        for path in (self._trusted(OPEN_SESSION), self.layout.session_copy):
            if path:
                files.own_place(path, os.path.dirname(os.path.dirname(path)))
                files.own_place(f"{path}.bak", os.path.dirname(path))
                files.write_json(path, dict(record), backup=True)

    def close_session(self) -> None:
        """Remove both session records, the trusted one last. The session's effects must be on disk before the call."""
        self._open = None
        for path in (self.layout.session_copy, self._trusted(OPEN_SESSION)):
            for each in (path, f"{path}.bak") if path else ():
                if os.path.lexists(each):
                    files.own_place(each, os.path.dirname(each))
                if os.path.lexists(each):
                    os.unlink(each)
        self.forget_histories()

    def forget_histories(self) -> None:
        """Remove the copies of the logs. No agent may run any more."""
        for name in HISTORIES:
            kept = self._trusted(f"before-{name}")
            if kept and os.path.lexists(kept):
                os.unlink(kept)

    def set_session_aside(self) -> str:
        """Rename an unusable session record. Return the new path."""
        self._open = None
        kept = ""
        for path in (self._trusted(OPEN_SESSION), self.layout.session_copy):
            if path and os.path.lexists(path):
                kept = files.free_name(f"{path}.aside")
                os.rename(path, kept)
            if path and os.path.lexists(f"{path}.bak"):
                os.rename(f"{path}.bak", files.free_name(f"{path}.bak.aside"))
        return kept

    def claims_of_run(self) -> "JsonObject":
        """Return the record of an active or killed parallel run, or {} without such a run."""
        return _or_empty(self._trusted(CLAIMS_OF_RUN))

    def left_by_run(self) -> "JsonObject | None":
        """Return the record of a killed parallel run, or None if no run was killed."""
        found = self.claims_of_run()
        if not found:
            return None
        from agent_harness.kernel import owner

        who = owner.Owner.from_record(found.get("owner"))
        claimed = members_of(found.get("items"))
        items = {item: each for item, each in claimed.items() if isinstance(each, dict)}
        if not items or (who is not None and who != owner.current() and owner.state(who) == "alive"):
            return None
        named = text(found.get("branch"))
        return {"workers": records.number(found.get("workers"), 1), "branch": named, "items": items}

    # -- proven features ------------------------------------------------------------------------------------------

    def proven(self) -> "JsonObject":
        return _or_empty(self._trusted(PROVEN))

    def believed(self, document: records.FeatureList) -> records.FeatureList:
        """Return the features. If proven.json exists, only features in it keep their passing mark."""
        listed = self.proven().get("features")
        accepted = {*records.ids(listed)}
        # agents can edit features.json; without proven.json, all marks are trusted
        if not isinstance(listed, list) or accepted.issuperset(f.id for f in document.passing):
            return document
        found = [f.record if f.id in accepted else {**f.record, "passes": False} for f in document.features]
        return records.FeatureList({**document.record, "features": found})

    def write_proven(self, record: "Mapping[str, Any]") -> None:
        # without its folder, nothing is written, and the next run runs the suite
        if path := self._trusted(PROVEN):
            files.own_place(path, os.path.dirname(path))
            files.write_json(path, dict(record))

    def installed(self) -> str | None:
        return self._trusted(INSTALLED)

    def reversal(self) -> str | None:
        """Return the path of the unfinished undo's record, or None without a state folder outside the project."""
        return self._trusted(REVERSAL)

    # -- verdicts on claims ---------------------------------------------------------------------------------------

    def ledger(self, *, make: bool = True) -> str:
        """Return the path of the verdict ledger."""
        at = self.layout
        home = self._home or trusted_state.existing(at.git_dir, at.root)
        if home is None and make:
            home = trusted_state.make(at.git_dir, at.root)[0]
        return os.path.join(home or self.layout.logs, LEDGER)

    # -- a person's pause ----------------------------------------------------------------------------------------

    def pause(self) -> "JsonObject | None":
        """Return the pause that a person or the harness requested, or None."""
        path = self._trusted(PAUSE) or os.path.join(self.layout.state_dir, PAUSE)
        try:
            return files.read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, StateDamaged):
            # an unreadable request counts as a pause
            return {"reason": "paused"} if os.path.isfile(path) else None

    def write_pause(self, record: "Mapping[str, Any] | None") -> None:
        path = self._trusted(PAUSE) or os.path.join(self.layout.state_dir, PAUSE)
        files.own_place(path, os.path.dirname(path))
        if record is not None:
            files.write_json(path, dict(record))
        elif os.path.lexists(path):
            os.unlink(path)

    # -- logs ----------------------------------------------------------------------------------------------------

    def event(self, event_type: str, level: str = "important", **fields: object) -> None:
        """Log an event if its level is at least the configured level (C44).

        If the configured level is ``routine``, log only about one routine event in ten."""
        rank = LEVELS.index(level)
        row = {"type": event_type, "level": level.upper(), **fields, **self.by}
        if rank < self._floor or (rank == self._floor and (level != "routine" or _is_sampled(row))):
            self.log("events.jsonl", row)

    def log(self, name: str, fields: "Mapping[str, object]") -> None:
        files.own_place(self.layout.log(name), self.layout.root)
        journal.append(self.layout.log(name), {"ts": clock.timestamp(fraction=True), **fields})

    def recent(self, name: str, count: int) -> "list[JsonObject]":
        return journal.tail(self.layout.log(name), count)

    def next_session(self) -> int:
        """Return a number greater than every recorded session number."""
        return max(self.state().last_session, *self.recorded_sessions(), 0) + 1

    def recorded_sessions(self) -> set[int]:
        return {records.number(row.get("session_id"), -1) for row in journal.tail(self.layout.log("sessions.jsonl"), 5)}


def jobs_of_run(left: "Mapping[str, object]") -> "dict[str, str]":
    items = members_of(left.get("items"))
    return {item: str(members_of(each).get("order")) for item, each in items.items()}
