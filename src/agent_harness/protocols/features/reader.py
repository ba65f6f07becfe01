"""Reader that converts the state of a feature project to the form that all views use. It reads the state files in the
same way as ``status``. Source: ``faces.md`` F-REC-7."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent_harness.kernel import files, trusted_state
from agent_harness.kernel.json import JsonObject, json_object, members_of, text, whole
from agent_harness.protocols.features import questions, records, selection, status
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.store import CLAIMS_OF_RUN, OPEN_SESSION, PAUSE, FeatureStore
from agent_harness.session import needs, now, project_view, run_snapshot
from agent_harness.session.project_view import AskedQuestion, Item, Money, Now, PastSession, Read, StatePart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["FeatureSource", "asked_question", "past_session"]


class FeatureSource:
    kind: Kind = "features"

    def __init__(self, layout: FeatureLayout, *, read_yaml: Callable[[str], JsonObject] | None = None) -> None:
        self.path = layout.root
        self._layout = layout
        self._read_yaml = read_yaml

    def home(self) -> str | None:
        """Return the state folder outside the project, or None if that folder does not exist."""
        try:
            return trusted_state.existing(self._layout.git_dir, self._layout.root)
        except (OSError, ValueError):  # an unreadable `.git`
            return None

    def now(self) -> Sequence[Now]:
        return now.read(self.home())

    def several(self) -> str | None:
        """Return one line about the active parallel run, or None without such a run."""
        return run_snapshot.at_work(run_snapshot.told(self._layout.parallel))

    def state_files(self) -> Sequence[str]:
        at, home = self._layout, self.home()
        kept = [os.path.join(folder, name) for folder in (home, at.state_dir) if folder for name in _KEPT]
        kept += [os.path.join(home, needs.LAST_RUN)] if home else []
        return [at.features, at.session_state, at.costs, at.session_copy, *kept]

    def state(self, read: Read) -> StatePart:
        store, at = FeatureStore(self._layout, read_yaml=self._read_yaml), self._layout
        believed = read(OPEN_SESSION, store.open_session, None)
        under_way = believed or store.session_copy()
        document = read(
            at.relative(at.features),
            lambda: status.proven_features(store, believed, under_way),
            records.FeatureList({}),
        )
        state = read(at.relative(at.session_state), store.state, records.SessionState({}))
        facts = status.FeatureFacts(store, document, state, under_way)
        waiting = {each.feature_id: questions.hint(each) for each in facts.asked}
        done = selection.finalized(document)
        return StatePart(
            name=document.project,
            items=tuple(_item(each, facts.standing(each), waiting, done, facts.checked) for each in document.features),
            questions=tuple(asked_question(each) for each in facts.asked),
            needs=facts.needs,
            money=read(at.relative(at.costs), lambda: _money(store.costs()), None),
            rests="in your hands" if facts.handoff else "paused" if facts.paused else None,
            next=facts.next,
            comes_first=facts.comes_first is not None,
        )

    def journals(self) -> Sequence[str]:
        return [self._layout.log("sessions.jsonl")]

    def sessions(self, rows: Iterable[JsonObject], before: tuple[PastSession, ...]) -> tuple[PastSession, ...]:
        return (*before, *(past_session(row) for row in rows))

    def recordings(self) -> Sequence[str]:
        import glob

        return [os.path.join(glob.escape(self._layout.logs), "session-*.cassette.jsonl")]


def transcript_in(layout: FeatureLayout, workspace: str) -> str | None:
    folder = os.path.join(workspace, layout.relative(layout.logs))
    if not files.is_inside(workspace, folder) or not os.path.isdir(folder):
        return None
    with os.scandir(folder) as entries:
        found = [
            each.path for each in entries if _TRANSCRIPT.fullmatch(each.name) and each.is_file(follow_symlinks=False)
        ]
    return max(found, default=None)


_TRANSCRIPT = re.compile(r"session-\d+\.log")
_KEPT = (OPEN_SESSION, PAUSE, CLAIMS_OF_RUN)


def past_session(row: JsonObject) -> PastSession:
    feature, tokens = row.get("feature_id"), json_object(row.get("tokens_used"))
    return PastSession(
        number=whole(row.get("session_id")),
        item=None if feature is None else str(feature),
        outcome=status.outcome(row),
        started=text(row.get("started_at")),
        ended=text(row.get("ended_at")),
        seconds=project_view.amount(row.get("duration_seconds")),
        agent=text(row.get("agent")),
        model=project_view.models(row.get("model")),
        prompt_type=text(row.get("prompt_type")),
        base=text(row.get("base")),
        head=text(row.get("head")),
        rescue_ref=text(row.get("rescue_ref")),
        turns=whole(row.get("turns")),
        tokens=None if tokens is None else records.counts(tokens),
        cost_usd=None
        if records.tells_nothing(tokens, row.get("cost_usd"))
        else project_view.amount(row.get("cost_usd")),
    )


def _item(
    feature: records.Feature, state: str, waiting: Mapping[int | None, str], done: set[int], checked: Mapping[str, str]
) -> Item:
    missing = [each for each in feature.depends_on if each not in done and not feature.passes]
    reason, following = "", f"harness run --feature {feature.id}"
    if state in project_view.DONE:
        following = "harness status"
        reason = "marked by a person's word" if feature.marked_by_person else checked.get(str(feature.id), "")
    elif state == project_view.SKIPPED:
        reason, following = feature.skip_reason, f"harness skip --feature {feature.id} --undo"
    elif state == project_view.WORKING:
        following = "harness status"
    elif feature.id in waiting:
        following = waiting[feature.id]
    elif state == project_view.NEEDS_YOU:
        following = f"harness manual-verify --feature {feature.id}"
        reason = "its code is accepted; a person confirms it"
    elif missing:
        following = f"harness why {missing[0]}"
    return Item(
        id=str(feature.id),
        name=feature.name,
        title=feature.description,
        state=state,
        reason=reason,
        waits_for=tuple(map(str, missing)),
        proof=feature.test_file or None,
        test_files=(feature.test_path,) if feature.test_path else (),
        next=following,
    )


def asked_question(found: records.Question) -> AskedQuestion:
    return AskedQuestion(
        kind=found.kind,
        message=found.message,
        item=None if found.feature_id is None else str(found.feature_id),
        options=found.options,
        explained=tuple(questions.meaning(found, each) for each in found.options),
        details=found.details,
        stops=questions.stops(found),
        answer=questions.hint(found),
        answers=tuple(questions.command(found, each) for each in found.options),
    )


def _money(costs: records.CostRecord) -> Money:
    budgets = members_of(costs.record.get("budgets"))
    sessions = records.number(costs.cumulative.get("total_sessions"))
    return Money(
        spent_usd=costs.total_usd,
        sessions=sessions,
        unknown=costs.unpriced_sessions or (max(1, sessions) if costs.silent else 0),
        assumed_usd=costs.assumed_usd,
        limit_usd=project_view.amount(budgets.get("total_project_usd")),
    )
