"""Questions to a person: every option has one letter, and a word, a letter or a number means the same everywhere."""

import pytest

from agent_harness.errors import Escalated, UsageError
from agent_harness.protocols.features import questions
from agent_harness.protocols.features.config.file import with_value
from agent_harness.protocols.features.people import answers
from agent_harness.protocols.features.records import Question, SessionState


@pytest.mark.parametrize("kind", questions.OPTIONS)
def test_no_letter_means_two_things_in_one_question(kind: str) -> None:
    """C11."""
    asked = questions.question(kind, "What now?")
    letters = [questions.letter(option) for option in asked.options]
    assert len(set(letters)) == len(letters)
    assert set(questions.OPTIONS[kind]) <= set(answers.ANSWERS)
    for number, option in enumerate(asked.options, 1):
        for chosen in (option, option.upper(), questions.letter(option), questions.letter(option).upper(), str(number)):
            assert questions.word(asked, chosen) == option
    lines = questions.text(asked).splitlines()
    for number, option in enumerate(asked.options, 1):
        (shown,) = [line for line in lines if line.startswith(f"{number} {questions.LABELS[option]} - ")]
        assert "{" not in shown
        assert len(shown.partition(" - ")[2]) > 10, "a line says what the option does"


@pytest.mark.parametrize("chosen", ["0", "9", "", "x", "retry now", "-1"])
def test_another_answer_is_a_usage_error_that_names_the_options(chosen: str) -> None:
    """UAH-077."""
    asked = questions.question("environment", "Could not recover clean state.")
    with pytest.raises(UsageError) as refused:
        questions.word(asked, chosen)
    assert refused.value.hint == "harness resume --choose manual  # or abort"


def test_a_question_of_another_version_is_still_asked() -> None:
    """C12."""
    with pytest.raises(Escalated):
        questions.refuse_pending(SessionState({"pending_escalation": {"message": "m"}}))
    assert SessionState({"pending_escalation": "nonsense"}).question is None
    assert "m" in questions.text(Question({"message": "m", "options": ["unheard of"]}))


def test_a_setting_is_changed_and_the_rest_stays_as_written() -> None:
    """C27."""
    before = (
        "# mine\nproject:\n  name: 'x'  # so\n\ncosts:\n  per_session_usd: 10.00   # dear\ntesting: {full: pytest}\n"
    )
    after = with_value(before, "costs", "per_session_usd", 20.0).decode()
    assert "per_session_usd: 20.0" in after
    for kept in ("# mine", "name: 'x'  # so", "# dear", "testing: {full: pytest}"):
        assert kept in after
    assert "costs:" in with_value("project:\n  name: x\n", "costs", "per_session_usd", 1.5).decode()


def test_a_run_says_the_question_about_its_own_feature_first() -> None:
    """The command names the feature, since another question would be answered without it."""
    kept = questions.question("built_already", "of one", feature_id=1)
    own = questions.question("claim_rejected", "of two", feature_id=2)
    assert questions.foremost([kept, own], {2}) is own
    assert questions.foremost([kept, own], {3}) is kept
    assert questions.foremost([], {3}) is None
    assert questions.text(own, among=[kept, own]).endswith("harness resume --choose WORD --feature 2")
    assert questions.text(own, among=[own]).endswith("harness resume --choose WORD")
    stops = questions.question("feature_stuck", "of three", feature_id=3)
    assert questions.foremost([stops, own], {2}) is stops
