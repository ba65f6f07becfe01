"""Pure functions that select the next feature, or explain why no feature can be selected. The module is small because
``status`` imports it. Source: features.md UAH-452..456, C13, C53."""

from agent_harness.protocols.features.records import Feature, FeatureList, SessionState


class Choice:
    """Feature selected for the next session, or the reason why there is none."""

    __slots__ = ("all_proven", "feature", "waiting")

    def __init__(self, feature: Feature | None, *, all_proven: bool = False, waiting: tuple[str, ...] = ()) -> None:
        self.feature = feature
        self.all_proven = all_proven
        self.waiting = waiting


def next_feature(document: FeatureList, state: SessionState) -> Choice:
    """Choose the next session's feature: unfinished work (UAH-462), or an open feature whose dependencies are done.

    Of the open features, those that sessions broke come first (C10), then the lowest priority and id."""
    partial = document.by_id(state.current_feature) if state.next_prompt == "continuation" else None
    if partial is not None and partial.is_open:
        return Choice(partial)
    done = finalized(document)
    kept = _kept(state)
    open_features = [f for f in document.features if f.is_open and f.id not in kept]
    if eligible := [f for f in open_features if done.issuperset(f.depends_on)]:
        first = {*state.fix_first}
        return Choice(min(eligible, key=lambda feature: (feature.id not in first, feature.priority, feature.id)))
    remaining = [f for f in document.features if not f.passes and not f.skipped]
    waiting = _waiting(document.features, done, kept)
    return Choice(None, all_proven=bool(document.features) and not remaining, waiting=waiting)


def chosen_feature(document: FeatureList, state: SessionState, feature_id: int) -> Feature:
    """Return the feature that a person chose. Raise an error if its session must not start."""
    from agent_harness.errors import NothingEligible

    feature = existing_feature(document, feature_id)
    if feature.passes:
        raise NothingEligible(f"{feature.name} already passes.", hint="harness status")
    partial = next_feature(document, state).feature if state.next_prompt == "continuation" else None
    # a session would push the unproven commits of the unfinished feature
    if partial is not None and partial.id == state.current_feature != feature_id:
        raise NothingEligible(
            f"{partial.name} is unfinished; the harness works on it first.",
            hint=f"harness run  # or harness skip --feature {partial.id}",
        )
    done, kept = finalized(document), _kept(state)
    if feature.id in kept or not (feature.is_open and done.issuperset(feature.depends_on)):
        raise NothingEligible(f"{_waiting([feature], done, kept)[0]}.", hint="harness status")
    return feature


def existing_feature(document: FeatureList, feature_id: int) -> Feature:
    from agent_harness.errors import UsageError

    feature = document.by_id(feature_id)
    if feature is None:
        known = ", ".join(str(f.record.get("id")) for f in document.features)
        raise UsageError(f"There is no Feature #{feature_id}; known ids: {known}", hint="harness status")
    return feature


def finalized(document: FeatureList) -> set[int]:
    """Return the ids of features that do not block other features (C53)."""
    return {f.id for f in document.features if f.passes or f.unblocks}


def _kept(state: SessionState) -> set[int | None]:
    return {asked.feature_id for asked in state.kept_candidates}


def _waiting(found: list[Feature], done: set[int], kept: set[int | None]) -> tuple[str, ...]:
    lines = []
    for feature in found:
        if feature.passes:
            continue
        name = f"{feature.name} ({feature.description})"
        if feature.skipped:
            lines.append(f"{name} was skipped" + (f": {feature.skip_reason}" if feature.skip_reason else ""))
        elif feature.awaits_person:
            lines.append(f"{name} needs a person's verification")
        elif feature.id in kept:
            lines.append(f"{name} waits for your answer: harness resume")
        elif missing := [i for i in feature.depends_on if i not in done]:
            lines.append(f"{name} waits for " + ", ".join(f"#{i}" for i in missing))
    return tuple(lines)
