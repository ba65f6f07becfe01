"""First lines of ``status``, in the same form for every kind of project.

    shop: 6 of 7 proven. #7 (claude-code): judging 0:42 (suite), 16.8k in 3.9k out, $0.11 of $10.00
    needs you  nothing
    cost       $0.98 of $200.00, $0.16 for each proven
    claims     9, 2 rejected
    kept       1 rolled back, 1 not verified: harness log sessions
    next       harness run

For speed, the module has no slow imports and counts verdicts without parsing JSON. Source: ``faces.md`` F-STORY-1.
"""

from __future__ import annotations

from contextlib import suppress

from agent_harness.session import needs, run_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from agent_harness.kernel.json import JsonObject

MOST_CHARACTERS = 60
"""Maximum number of characters in the one-line status, which is made for status bars."""

PROVEN, CHECKED, OPEN, WORKING, FAILED, BLOCKED = "proven", "checked", "open", "working", "failed", "blocked"
SKIPPED, UNPROVEN, NEEDS_YOU = "skipped", "unproven", "needs you"
"""States of an item, in the words that every view displays."""

DONE = (PROVEN, CHECKED)
"""States of completed items. ``verification/grade.py`` explains how the states differ."""

NOT_REPORTED = "not reported by the agent"
"""Text that is shown if the cost is unknown."""

AT_WORK = "harness log --follow"
"""Command that the user can type while an agent works."""


def claims(ledger: str) -> JsonObject:
    """Return the number of verified claims and the number of rejected claims. The user's own decisions do not count."""
    judged = rejected = 0
    for line in _rows(ledger):
        if b'"verdict":"' in line and b'"claim":[]' not in line and b'"by":"person"' not in line:
            judged += 1
            rejected += b'"verdict":"rejected"' in line
    return {"judged": judged, "rejected": rejected}


def checked(ledger: str) -> dict[str, str]:
    """Return the items that are only checked, each with the reason why it is not proven."""
    from agent_harness.kernel.json import jsontext

    found: dict[str, str] = {}
    for line in _rows(ledger):
        if b'"verdict":"accepted"' not in line:
            continue
        if b'"grade":"checked"' in line:
            with suppress(ValueError):
                row = jsontext.loads(line, exact=False)
                found[str(row.get("item"))] = str(row.get("basis"))
        elif found:
            item = line.partition(b'"item":"')[2].partition(b'"')[0].decode("utf-8", "replace")
            found.pop(item, None)
    return found


ROLLED_BACK, GIVEN_BACK, ASKED_ABOUT = "rolled back", "given back", "taken back for a question"
"""Reasons, in JSON, why work is kept outside the branch: the work was rejected, it was not verified, or the user must
answer a question."""
_KEPT_WORDS = {GIVEN_BACK: "not verified", ASKED_ABOUT: "waiting for your answer"}
KEPT_FOR_ANSWER = "kept until a person answers"
_ENDED_UNJUDGED = ("interrupted", "released", "lost", "handed off")


def why_kept(outcome: str) -> str:
    """Return the reason why work with this outcome is kept outside the branch."""
    if outcome == KEPT_FOR_ANSWER:
        return ASKED_ABOUT
    return GIVEN_BACK if outcome.startswith(_ENDED_UNJUDGED) else ROLLED_BACK


def kept(outcomes: Iterable[str]) -> dict[str, int]:
    """Return how many sessions have kept work, by the reason for keeping the work."""
    found = [*map(why_kept, outcomes)]
    return {why: found.count(why) for why in (ROLLED_BACK, GIVEN_BACK, ASKED_ABOUT) if why in found}


def kept_text(found: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {shown_reason(why)}" for why, count in found.items())


def shown_reason(why: str) -> str:
    return _KEPT_WORDS.get(why, why)


def kept_rows(sessions: str) -> Iterator[JsonObject]:
    """Yield the rows with a rescue ref from a session history."""
    from agent_harness.kernel.json import jsontext

    for line in _rows(sessions):
        if b'"rescue_ref":"refs/' in line.replace(b'": "', b'":"'):
            try:
                row = jsontext.loads(line, exact=False)
            except ValueError:
                continue
            if isinstance(row, dict):
                yield row


def _rows(path: str) -> Sequence[bytes]:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs a start
            return file.readlines()
    except OSError:
        return ()


def lines(
    found: Mapping[str, Any],
    *,
    name: str,
    proven: int,
    checked: int,
    total: int,
    doing: Sequence[str],
    cost: str | None,
    kept_line: str | None,
    most: int | None = None,
) -> list[str]:
    """Return the first lines of ``harness status``."""
    first = f"{name}: {counted_words(proven, total, checked)}." if total else f"{name}: no tasks or features yet."
    asks = [str(needs.Need(**each)) for each in found["needs"]]
    rows = [
        " ".join([first, *doing]),
        *(labelled("needs you", each) for each in first_of(asks or ["nothing"], most)),
        *([labelled("cost", cost)] if cost else []),
    ]
    counted = found["claims"]
    if judged := counted["judged"]:
        rows.append(labelled("claims", f"{judged}, {counted['rejected'] or 'none'} rejected"))
    if kept_line:
        rows.append(labelled("kept", kept_line))
    if untold := found.get("undelivered"):
        rows.append(labelled("not sent", not_delivered(untold)))
    if untaken := found.get("unexported"):
        rows.append(labelled("not exported", not_exported(untaken)))
    return [*rows, labelled("next", str(found["next"]))]


def doing(found: Mapping[str, Any], *, stops: bool, is_done: bool, unnamed: str) -> str:
    """Return a project's activity in a few words."""
    alive = next((each for each in found["now"] if each["alive"]), None)
    words = (
        "needs you" if stops else "",
        "paused" if found["paused"] else "",
        run_snapshot.at_work(found["parallel"]),
        f"{alive.get('item') or unnamed} {alive.get('phase') or ''}".strip() if alive else "",
        "done" if is_done else "",
        "needs you" if found["needs"] else "",
    )
    return next(filter(None, words), "idle")


def counted_words(proven: int, total: int, checked: int) -> str:
    return f"{proven} of {total} proven{f', {checked} checked' if checked else ''}"


def not_delivered(rows: Sequence[Mapping[str, str]]) -> str:
    from agent_harness.kernel import clock

    last, count = rows[-1], f"{len(rows)} message{'s' if len(rows) > 1 else ''}"
    at = clock.parse(rows[0]["at"])
    since = f" since {at.astimezone():%Y-%m-%d %H:%M}" if at else ""
    return f"{count}{since}; {last['to']}: {last['why']} (harness notify test)"


def not_exported(found: Mapping[str, Any]) -> str:
    """Return a message about sessions that the harness has not exported to a telemetry collector."""
    from agent_harness.kernel import clock

    count = found["sessions"]
    what = f"{count} session{'s' if count > 1 else ''}" if count else "the end of a run"
    at = clock.parse(found["since"])
    since = f" since {at.astimezone():%Y-%m-%d %H:%M}" if at else ""
    return f"{what}{since}; {found['why']} (harness export otel --since {found['since']} --to {found['to']})"


def glance(*, name: str, proven: int, total: int, doing: str, cost: str | None, checked: int = 0) -> str:
    """Return the one-line status, with a long name cut."""
    rest = f" {proven}/{total}{f' ({checked} checked)' if checked else ''} {doing}" + (f" {cost}" if cost else "")
    room = max(MOST_CHARACTERS - len(rest), 1)
    short = name if len(name) <= room else f"{name[: room - 1]}~"
    return f"{short}{rest}"[:MOST_CHARACTERS]


ALL = "harness status --all"


def first_of(lines: Sequence[str], most: int | None, *, everything: bool = False) -> list[str]:
    """Return the first ``most`` lines, and a line with the number of hidden lines."""
    if everything or most is None or len(lines) <= most + 1:
        return [*lines]
    return [*lines[:most], f"... and {len(lines) - most} more: {ALL}"]


def names(found: Sequence[str], most: int, *, everything: bool = False) -> str:
    """Return one line with the first ``most`` ids and the number of other ids."""
    if everything or len(found) <= most + 1:
        return ", ".join(found)
    return f"{', '.join(found[:most])} and {len(found) - most} more"


def labelled(label: str, text: str) -> str:
    return f"{label:<10} {text}"
