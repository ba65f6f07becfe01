"""No secret is written: every shape is masked, code and prose stay, hostile text costs no more than other text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel.redact import is_secret_name, redact

_SECRET_NAMES = """
    API_KEY api_key apiKey APIKey X-Api-Key OPENAI_API_KEY STRIPE_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY SECRET
    client_secret clientSecret TOKEN GITHUB_TOKEN accessToken HARNESS_CLAIM_TOKEN PASSWORD dbpassword DB_PWD PGPASSWORD
    passphrase Authorization Proxy-Authorization Set-Cookie GITHUB_PAT NPM_AUTH private_key --password SENTRY_DSN
    GOOGLE_APPLICATION_CREDENTIALS jwt API_KEYS
"""
_OTHER_NAMES = """
    PATH HOME PWD OLDPWD KEY key LANG SSH_AUTH_SOCK GIT_AUTHOR_NAME author input_tokens max_tokens TOKEN_LIMIT
    token_count tokenizer PASSWORD_FILE KEYBOARD primary_key PUBLIC_KEY sort_keys cache_key monkey secretary
    HARNESS_STATE_ROOT passing passed total HARNESS_PROJECT_DIR AUTH 1 _ --- é
"""


@pytest.mark.parametrize("name", _SECRET_NAMES.split())
def test_names_that_hold_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["", *_OTHER_NAMES.split()])
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


_MASKED = [
    ("API_KEY=abc", "API_KEY=***"),
    ("export DB_PASSWORD='it is a \\' phrase'; next", "export DB_PASSWORD='***'; next"),
    ("GITHUB_TOKEN=a,b;c next=1", "GITHUB_TOKEN=*** next=1"),
    ('{"password": "hunter2", "user": "me"}', '{"password": "***", "user": "me"}'),
    ('{"clientSecret":"a\\"b\\\\","n":1}', '{"clientSecret":"***","n":1}'),
    ('"{\\"token\\": \\"abc\\", \\"n\\": 1}"', '"{\\"token\\": \\"***\\", \\"n\\": 1}"'),
    ("{'token': 'abc'}", "{'token': '***'}"),
    ('secret = "abc"', 'secret = "***"'),
    ('secret = "cut off', 'secret = "***'),
    ("password: hunter2", "password: ***"),
    ("password => correct1horse,", "password => ***,"),
    ("https://host/?token=abc&page=2", "https://host/?token=***&page=2"),
    ("--api-key=abc --verbose", "--api-key=*** --verbose"),
    ("login --password hunter2 --user me", "login --password *** --user me"),
    ("login --password 'a b' x", "login --password '***' x"),
    ("Authorization: Bearer abc.def", "Authorization: ***"),
    ('curl -H "X-Api-Key: abc123" url', 'curl -H "X-Api-Key: ***" url'),
    ("Cookie: a=1; b=2\nnext", "Cookie: ***\nnext"),
    ("sent bearer abcdefgh1 to", "sent bearer *** to"),
    ("Basic dXNlcjpwYXNzd29yZA==", "Basic ***"),
    ("sk-ant-api03-abcdefghijklmnop1234", "***"),
    ("key is sk-proj-A1bcdefghijklmnop_-x.", "key is ***."),
    ("ghp_" + "a1" * 18, "***"),
    ("github_pat_" + "A1_" * 20, "***"),
    ("AKIAIOSFODNN7EXAMPLE", "***"),
    ("AIza" + "b2" * 18, "***"),
    ("xoxb-123456789012-abc", "***"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.SflKxw-RJSM", "***"),
    ("postgres://me:pa@ss:w@host/db", "postgres://me:***@host/db"),
    ("https://:secret@host", "https://:***@host"),
    ("a -----BEGIN RSA PRIVATE KEY-----\nMII\nx\n-----END RSA PRIVATE KEY----- b", "a *** b"),
    ("-----BEGIN PRIVATE KEY-----\\nMII\\n-----END PRIVATE KEY-----\\n", "***\\n"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nMII cut off", "***"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----", "***"),
]


@pytest.mark.parametrize(("text", "masked"), _MASKED)
def test_secrets_are_masked(text: str, masked: str) -> None:
    assert redact(text) == masked
    assert redact(f"before\n{text}\nafter") in (f"before\n{masked}\nafter", f"before\n{masked}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "all 12 tests passed in 0.31s",
        "assert token == expected",
        "def login(token: str, password: str | None = None) -> bool:",
        "token = get_token(user)",
        "self.api_key = api_key",
        "input_tokens: 123456789 max_tokens=4096",
        'password=None, secret="", token=${TOKEN}, API_KEY=$API_KEY, x_token=$(cat file)',
        "Basic authentication and bearer authorization",
        "task-001-implement-user-authentication-now",
        "sk-learn-compatible-estimators",
        "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
        "https://host:8080/path ssh://git@host/repo",
        "commit 1234567890abcdef1234567890abcdef12345678",
        "Password: must be longer",
        "--token-limit 5 --sort-key name",
    ],
)
def test_code_and_prose_stay(text: str) -> None:
    assert redact(text) == text


def test_values_of_our_own_environment_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "plainlookingvalue")
    monkeypatch.setenv("OTHER_TOKEN", "plainlookingvalue-longer")
    monkeypatch.setenv("SHORT_TOKEN", "main")
    monkeypatch.setenv("PLAIN", "not a secret at all")
    text = "x=plainlookingvalue y=plainlookingvalue-longer main not a secret at all"
    assert redact(text) == "x=*** y=*** main not a secret at all"


def test_a_value_of_our_own_environment_is_masked_however_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    value = 'first "half\\é\N{KEY}\nthe second half\n'
    monkeypatch.setenv("MY_SECRET", value)
    for written in (value.strip(), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        assert "half" not in redact(f"before {written} after")
    for line in value.splitlines():
        assert redact(f"> {line}") == "> ***"
        for written in (json.dumps({"command": line}), repr([line]), ascii([line])):
            assert "half" not in redact(written)


_ODDS = r"""token api_key = : " ' \ *** * :// u: @ , [ ( BEGIN --password Bearer sk- 1 abcdefgh eyJ . & é"""
_pieces = st.sampled_from(
    [*(text for text, _ in _MASKED), *_ODDS.split(), "\n", " ", "-----BEGIN ", "PRIVATE KEY-----"]
)


@given(st.lists(_pieces | st.text(max_size=5), max_size=12).map("".join))
def test_masking_twice_changes_nothing(text: str) -> None:
    masked = redact(text)
    assert redact(masked) == masked


_phrases = st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters="\\\"'"), min_size=1)


@given(_phrases)
def test_no_quoted_value_of_a_secret_name_survives(value: str) -> None:
    for before, after in (('"api_key": "', '"'), ("PASSWORD='", "'"), ('token = "', '" # x')):
        assert redact(before + value + after) == before + "***" + after


_HOSTILE = r"""a a. - --a sk- sk-a eyJ eyJaaaaaaaa. token= token: token=" token=\ :// ://a: a@ BEGIN password ==== AKIA
    xoxb-1 SG.aaaaaaaaaaaaaaaa. authorization: ' \" \ """
_HOSTILE_PIECES = [
    *_HOSTILE.split(),
    " ",
    "\n",
    "token ",
    "--token ",
    "bearer ",
    "basic a",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
]


@pytest.mark.parametrize("piece", _HOSTILE_PIECES)
def test_two_hundred_thousand_hostile_characters_are_no_problem(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    assert len(redact(text)) <= len(text)
    redact(text + "@" + text[:1000] + '"')


def test_a_token_that_a_printed_value_continues_on_the_next_line_is_masked() -> None:
    token = "lCPR3fxzV2A6cYIc2tlE11B1jb7G6f7Lejm2X8czV04"
    shown = f"E               'Authorization: Bearer '\nE               '{token}\\n'\nE               'more'\n"
    assert token not in redact(shown)
    assert "'more'" in redact(shown)
