"""State files of a feature project, which are written atomically under one lock, and append-only logs.

This module is the lowest layer of the protocol: it handles files, but not git, agents or verification. Source:
features.md sections F-H, C31.
"""

import os

from agent_harness.errors import StateDamaged
from agent_harness.kernel import (
    clock,
    files,
    journal,
    trusted_state,
)
from agent_harness.protocols.features import records
from agent_harness.protocols.features.layout import FeatureLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from agent_harness.kernel.json import JsonObject


HISTORIES = ("events.jsonl", "sessions.jsonl", "decisions.jsonl", "usage.jsonl")
"""Log files whose content cannot be reconstructed if a file is lost."""


def _content(path: str) -> bytes:
    """Return the content of a file. If the file is unreadable or too large, the result is empty."""
    try:
        return files.read_bytes(path)
    except (OSError, StateDamaged):
        return b""


def _read_or_backup(path: str) -> "JsonObject | None":
    """Return the JSON record in a file or, if the file is damaged, in its backup. Return ``None`` if the file is
    missing.

    Raise ``StateDamaged`` if both the file and its backup are damaged.
    """
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
    """Return True for about one row in ten. The result depends only on the row's content."""
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
    """Access to the state files and logs of one project."""

    def __init__(
        self,
        layout: FeatureLayout,
        *,
        log_level: str = "important",
        read_yaml: "Callable[[str], JsonObject] | None" = None,
        by: str | None = None,
    ) -> None:
        """Open the store. ``read_yaml`` parses a costs file that a person rewrote as YAML that is not JSON.

        If ``by`` is given, every event records its value.
        """
        self.layout = layout
        self.by: JsonObject = {"by": by} if by else {}
        self._read_yaml = read_yaml
        self._floor = LEVELS.index(log_level) if log_level in LEVELS else 1
        self._written: dict[str, bytes] = {}
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
        """Return True if ``harness init`` was completed in this project."""
        return os.path.isfile(self.layout.session_state)

    def state(self) -> records.SessionState:
        """Return session_state.json. Missing members have the defaults of a new project."""
        return records.SessionState(self._read(self.layout.session_state))

    def write_state(self, state: records.SessionState) -> None:
        """Replace session_state.json with the given session state."""
        self.write(self.layout.session_state, state.record)

    def update_state(self, **members: object) -> records.SessionState:
        """Set the given members of session_state.json, and return the new state."""
        state = self.state().but(**members)
        self.write_state(state)
        return state

    def stored_state(self) -> "JsonObject":
        """Return session_state.json as it is on disk, without defaults."""
        return self._read(self.layout.session_state)

    def baseline(self) -> records.Baseline:
        """Return test_baseline.json. Missing members have their defaults."""
        return records.Baseline(self._read(self.layout.baseline))

    def write_baseline(self, baseline: records.Baseline) -> None:
        """Replace test_baseline.json with the given baseline."""
        self.write(self.layout.baseline, baseline.record)

    def file_sizes(self) -> "JsonObject":
        """Return the content of file_sizes.json. If the file is missing, the result is an empty object."""
        return self._read(self.layout.file_sizes)

    def quality(self) -> "JsonObject":
        """Return the content of quality.json. If the file is missing, the result is an empty object."""
        return self._read(self.layout.quality)

    def issues(self) -> "JsonObject":
        """Return the content of github_issues.json. If the file is missing or unreadable, the result is an empty
        object.
        """
        try:
            return files.read_json(self.layout.github_issues)
        except (OSError, StateDamaged):
            return {}

    def costs(self) -> records.CostRecord:
        """Return costs.yaml. If the file is not JSON, ``read_yaml`` parses it."""
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
        """Replace a state file atomically. The previous version is kept as a backup, and the new content is
        remembered.
        """
        files.own_place(path, self.layout.root)
        files.own_place(f"{path}.bak", self.layout.root)
        files.write_json(path, dict(value), backup=True)
        self._written[path] = files.read_bytes(path)

    def _read(self, path: str) -> "JsonObject":
        try:
            return files.read_json(path)
        except FileNotFoundError:
            return {}
        except StateDamaged as error:
            raise self._with_hint(error, path) from None

    def _with_hint(self, error: StateDamaged, path: str) -> StateDamaged:
        """Return the error with a hint added: the command that restores the last undamaged version of the file."""
        name = self.layout.relative(path)
        kept = os.path.exists(f"{path}.bak")
        error.hint = f"cp {name}.bak {name}" if kept else f"fix {name} manually"
        return error

    def sweep(self) -> None:
        """Remove temporary files that killed processes left next to the state files. The caller must hold the lock."""
        kept = [path for name in (OPEN_SESSION, PROVEN, REVERSAL) if (path := self._trusted(name))]
        for path in (*self._guarded(), *kept, self.layout.features, self.layout.progress, self.layout.session_copy):
            files.sweep(path)

    # -- protection of the state against the agent (C31) ----------------------------------------------------------

    def hold(self) -> None:
        """Remember the current content of the state files, so that ``tampered`` can compare it later."""
        held = {}
        for path in self._guarded():
            try:
                held[path] = files.read_bytes(path)
            except (OSError, StateDamaged):
                continue
        self._written = held
        self.keep_histories()

    def keep_histories(self) -> None:
        """Copy the logs, before an agent works, to a folder that agents cannot write to."""
        import shutil

        for name in HISTORIES:
            source, kept = self.layout.log(name), self._trusted(f"before-{name}")
            if kept and os.path.isfile(source) and not os.path.islink(source):
                try:
                    shutil.copyfile(source, kept)
                except OSError:  # a disk error: then there is no copy to restore
                    continue

    def put_back_histories(self) -> list[str]:
        """Restore logs that no longer begin with the rows that they had before the agent's work, and return their
        names.

        Rows that were added later are kept, after the restored rows.
        """
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
        """Restore state files that differ from what the harness wrote, and return the names of these files."""
        paths = dict.fromkeys((*self._guarded(), *self._written))
        return [self.layout.relative(path) for path in paths if self.restore(path, self._written.get(path))]

    def restore(self, path: str, expected: "bytes | None") -> bool:
        """Restore the content of a file, even if a symbolic link or a folder has replaced the file.

        If ``expected`` is ``None``, the file is deleted. Return True if the file had changed.
        """
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
        """Create or find the state folder that the project has outside its own folder, where agents cannot change it.

        Return a note for the user if this is not the usual folder.
        """
        self._home, note = trusted_state.make(self.layout.git_dir, self.layout.root)
        return note

    def _trusted(self, name: str) -> str | None:
        folder = self.home()
        return os.path.join(folder, name) if folder else None

    def home(self) -> str | None:
        """Return the state folder that the project has outside its own folder, or ``None`` if there is none."""
        return self._home or trusted_state.existing(self.layout.git_dir, self.layout.root, writable=False)

    def now_path(self) -> str | None:
        """Return the path of now.json, which says what the session is doing.

        Return ``None`` if there is no state folder outside the project.
        """
        return self._trusted("now.json")

    def open_session(self) -> "JsonObject | None":
        """Return the harness's record of a running or interrupted session, or None if there is no such session.

        The record is stored outside the project.
        """
        if self._open is not None:
            return self._open
        path = self._trusted(OPEN_SESSION)
        return _read_or_backup(path) if path else None

    def clear_places(self) -> None:
        """Restore the folder in ``.git`` that contains the session record, if an agent replaced the folder."""
        if os.path.isdir(self.layout.git_dir):
            files.own_place(self.layout.session_copy, self.layout.git_dir)

    def session_copy(self) -> "JsonObject | None":
        """Return the untrusted copy of the session record in the project, or ``None`` if there is none.

        An unreadable copy counts as an empty record.
        """
        try:
            return _read_or_backup(self.layout.session_copy)
        except (OSError, StateDamaged):
            return {}

    def write_open_session(self, record: "Mapping[str, Any]") -> None:
        """Write the record of the running session. The record is durable when this method returns."""
        self._open = dict(record)
        for path in (self._trusted(OPEN_SESSION), self.layout.session_copy):
            if path:
                files.own_place(path, os.path.dirname(os.path.dirname(path)))
                files.own_place(f"{path}.bak", os.path.dirname(path))
                files.write_json(path, dict(record), backup=True)

    def close_session(self) -> None:
        """Remove the session record. All effects of the session must already be on disk. The trusted record is removed
        last.
        """
        self._open = None
        for path in (self.layout.session_copy, self._trusted(OPEN_SESSION)):
            for each in (path, f"{path}.bak") if path else ():
                if os.path.lexists(each):
                    files.own_place(each, os.path.dirname(each))
                if os.path.lexists(each):
                    os.unlink(each)
        self.forget_histories()

    def forget_histories(self) -> None:
        """Remove the copies of the logs, after the last agent has ended."""
        for name in HISTORIES:
            kept = self._trusted(f"before-{name}")
            if kept and os.path.lexists(kept):
                os.unlink(kept)

    def set_session_aside(self) -> str:
        """Rename a session record that cannot be used, and return its new path."""
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
        """Return the content of the claims file of a running or killed parallel run: ``owner``, ``workers``,
        ``branch``, ``items``.
        """
        path = self._trusted(CLAIMS_OF_RUN)
        if path is None or not os.path.exists(path):
            return {}
        try:
            return files.read_json(path)
        except (OSError, StateDamaged):
            return {}

    def left_by_run(self) -> "JsonObject | None":
        """Return the content of a killed parallel run's claims file (``workers``, ``branch``, ``items``), or None.

        None means that no parallel run was killed.
        """
        found = self.claims_of_run()
        if not found:
            return None
        from agent_harness.kernel import owner

        who = owner.Owner.from_record(found.get("owner"))
        claimed = records.json_object(found.get("items")) or {}
        items = {item: each for item, each in claimed.items() if isinstance(each, dict)}
        if not items or (who is not None and who != owner.current() and owner.state(who) == "alive"):
            return None
        branch = found.get("branch")
        named = branch if isinstance(branch, str) else None
        return {"workers": records.number(found.get("workers"), 1), "branch": named, "items": items}

    # -- proven features ------------------------------------------------------------------------------------------

    def proven(self) -> "JsonObject":
        """Return the content of proven.json. If the file is missing or unreadable, the result is an empty object."""
        path = self._trusted(PROVEN)
        try:
            return files.read_json(path) if path else {}
        except (OSError, StateDamaged):
            return {}

    def believed(self, document: records.FeatureList) -> records.FeatureList:
        """Return the feature list in which a feature passes only if the harness accepted it or a person marked it.

        An agent could have edited features.json. A project that is new to the harness is trusted.
        """
        listed = self.proven().get("features")
        accepted = {*records.ids(listed)}
        if not isinstance(listed, list) or accepted.issuperset(f.id for f in document.passing):
            return document
        found = [f.record if f.id in accepted else {**f.record, "passes": False} for f in document.features]
        return records.FeatureList({**document.record, "features": found})

    def write_proven(self, record: "Mapping[str, Any]") -> None:
        """Replace proven.json. If there is no folder for the file, nothing is written, and the next run runs the suite
        instead.
        """
        if path := self._trusted(PROVEN):
            files.own_place(path, os.path.dirname(path))
            files.write_json(path, dict(record))

    def installed(self) -> str | None:
        """Return the path of the list of packages that were installed before a session.

        Return ``None`` if there is no state folder outside the project.
        """
        return self._trusted(INSTALLED)

    def reversal(self) -> str | None:
        """Return the path of the record of an unfinished undo.

        Return ``None`` if there is no state folder outside the project.
        """
        return self._trusted(REVERSAL)

    # -- verdicts on claims ---------------------------------------------------------------------------------------

    def ledger(self, *, make: bool = True) -> str:
        """Return the path of the verdict ledger.

        The ledger is in the project if there is no writable folder outside the project. ``make=False`` is for readers:
        no folder is created.
        """
        at = self.layout
        home = self._home or trusted_state.existing(at.git_dir, at.root)
        if home is None and make:
            home = trusted_state.make(at.git_dir, at.root)[0]
        return os.path.join(home or self.layout.logs, LEDGER)

    # -- a person's pause ----------------------------------------------------------------------------------------

    def pause(self) -> "JsonObject | None":
        """Return the user's pause request, or None. A request that is unreadable counts as a pause."""
        path = self._trusted(PAUSE) or os.path.join(self.layout.state_dir, PAUSE)
        try:
            return files.read_json(path)
        except FileNotFoundError:
            return None
        except (OSError, StateDamaged):
            return {"reason": "paused"} if os.path.isfile(path) else None

    def write_pause(self, record: "Mapping[str, Any] | None") -> None:
        """Write a pause request. If ``record`` is ``None``, delete the request."""
        path = self._trusted(PAUSE) or os.path.join(self.layout.state_dir, PAUSE)
        files.own_place(path, os.path.dirname(path))
        if record is not None:
            files.write_json(path, dict(record))
        elif os.path.lexists(path):
            os.unlink(path)

    # -- logs ----------------------------------------------------------------------------------------------------

    def event(self, event_type: str, level: str = "important", **fields: object) -> None:
        """Write an event to events.jsonl, unless the event's level is below the configured level (C44).

        If the configured level is ``routine``, about one in ten routine events is kept, selected by its content.
        """
        rank = LEVELS.index(level)
        row = {"type": event_type, "level": level.upper(), **fields, **self.by}
        if rank < self._floor or (rank == self._floor and (level != "routine" or _is_sampled(row))):
            self.log("events.jsonl", row)

    def log(self, name: str, fields: "Mapping[str, object]") -> None:
        """Append one JSON line with a timestamp to a log of the project."""
        files.own_place(self.layout.log(name), self.layout.root)
        journal.append(self.layout.log(name), {"ts": clock.timestamp(fraction=True), **fields})

    def recent(self, name: str, count: int) -> "list[JsonObject]":
        """Return the last ``count`` rows of a log, read from its end."""
        return journal.tail(self.layout.log(name), count)

    def next_session(self) -> int:
        """Return the number of the next session. No recorded session has this number, even if an older state was
        restored.
        """
        return max(self.state().last_session, *self.recorded_sessions(), 0) + 1

    def recorded_sessions(self) -> set[int]:
        """Return the session numbers in the last five rows of sessions.jsonl."""
        return {records.number(row.get("session_id"), -1) for row in journal.tail(self.layout.log("sessions.jsonl"), 5)}


def jobs_of_run(left: "Mapping[str, object]") -> "dict[str, str]":
    """Return the job id of each feature in the result of ``left_by_run``."""
    items = records.json_object(left.get("items")) or {}
    return {item: str((records.json_object(each) or {}).get("order")) for item, each in items.items()}
