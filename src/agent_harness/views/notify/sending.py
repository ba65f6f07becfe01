"""Targets of notifications, and delivery to them. Webhooks and commands are built in. The apprise library handles all
other addresses.

The settings belong to the user, and are stored in the harness's own state, which sandboxed agents cannot read. Project
files, which agents can change, do not affect the targets. A secret stays in the environment: ``${NAME}`` in a target is
replaced on delivery. Source: ``faces.md`` 7; ``docs/decisions/who-is-told-is-the-users.md``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent_harness.errors import ConfigurationError, HarnessError, UsageError
from agent_harness.kernel import clock, files, trusted_state
from agent_harness.kernel.json import JsonObject, members_of, number_below, texts
from agent_harness.kernel.redact import redact
from agent_harness.views.notify import FILE, VARIABLE
from agent_harness.views.notify.notices import EVENTS, NotifySettings

SEND_SECONDS = 20.0
_NAME = re.compile(r"\$\{(\w+)\}")
_HOURS = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-3]):([0-5]\d)")


def read(environ: Mapping[str, str] = os.environ) -> NotifySettings:
    """Return the user's notification settings and the targets from the environment. Ignore invalid settings."""
    record = _record()
    to, on, urgent = (tuple(texts(record.get(name))) for name in ("to", "on", "urgent"))
    besides = tuple(environ.get(VARIABLE, "").split())
    given: dict[str, Any] = {"on": tuple(each for each in on if each in EVENTS)} if on else {}
    hours = number_below(record.get("digest_hours"), 1e6)
    if hours:
        given["digest_hours"] = hours
    quiet = record.get("quiet")
    return NotifySettings(
        to=tuple(dict.fromkeys([*to, *besides])), quiet=hours_of(quiet) if quiet else None, urgent=urgent, **given
    )


def hours_of(text: object) -> tuple[int, int] | None:
    """Parse a time range such as ``22:00-07:00`` into minutes since midnight. Return None for other text."""
    found = _HOURS.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    return int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])


def add(target: str) -> None:
    """Add a notification target to the user's settings. Raise ``UsageError`` if the target is invalid."""
    kind, _, rest = target.partition(":")
    is_wrong = {"webhook": not rest.startswith(("http://", "https://", "${")), "command": not rest.strip()}
    if ":" not in target or is_wrong.get(kind):
        raise UsageError(
            f"{target!r} is not a notification target",
            hint="harness notify add command:notify-send  # or webhook:URL, or ntfy://HOST/TOPIC",
        )
    _change(lambda record: record.update(to=[*dict.fromkeys([*texts(record.get("to")), target])]))


def remove(target: str) -> None:
    """Remove a target from the user's settings. Raise ``UsageError`` if the settings do not contain this target."""
    known = texts(_record().get("to"))
    if target not in known:
        raise UsageError(f"{shown(target)} is not a notification target", hint="harness notify")
    _change(lambda record: record.update(to=[each for each in known if each != target]))
    settle(target)


def settle(target: str) -> None:
    """Record that a target works again or was removed. The harness then stops reporting earlier failures."""

    def act(record: JsonObject) -> None:
        record["settled"] = {**members_of(record.get("settled")), shown(target): clock.timestamp(fraction=True)}

    _change(act)


def change(**members: object) -> None:
    """Change the user's notification settings. Remove each setting whose new value is None."""

    def act(record: JsonObject) -> None:
        for name, value in members.items():
            if value is None:
                record.pop(name, None)
            else:
                record[name] = value

    _change(act)


def shown(target: str) -> str:
    """Return a target without secrets. For an address, show only the scheme and the host."""
    kind, _, rest = target.partition(":")
    if kind == "command":
        return redact(target)
    found = re.match(
        r"(?:(?P<scheme>[\w+.-]+):)?//(?:[^@/]*@)?(?P<host>[\w.:${}-]*)", rest if kind == "webhook" else target
    )
    if found is None:
        return f"{kind}:…"
    lead = f"{kind}:{found['scheme']}:" if kind == "webhook" and found["scheme"] else f"{kind}:"
    return f"{lead}//{found['host']}" + (
        "/…" if "/" in rest.removeprefix("//").partition("//")[2] or rest.count("/") > 2 else ""
    )


def send(target: str, message: JsonObject, environ: Mapping[str, str] = os.environ) -> str | None:
    """Send a message to a target. Return the reason if the delivery failed, otherwise None."""
    missing = [name for name in _NAME.findall(target) if name not in environ]
    if missing:
        return f"${{{missing[0]}}} is not set"
    filled = _NAME.sub(lambda found: environ[found[1]], target)
    kind, _, rest = filled.partition(":")
    try:
        if kind == "webhook":
            return _post(rest, message)
        if kind == "command":
            return _run(rest, message, environ)
        return _apprise(filled, message)
    except (OSError, ValueError, subprocess.SubprocessError, HarnessError) as error:
        return redact(" ".join(_reason(error).split())) or type(error).__name__


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", error)  # urllib wraps the cause
    if not isinstance(cause, OSError) or not cause.strerror:
        return str(error)
    return f"{cause.strerror}: {cause.filename}" if cause.filename else cause.strerror


def _post(address: str, message: JsonObject) -> str | None:
    if not address.startswith(("http://", "https://")):
        return "a webhook must be an http:// or https:// address"
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        address,
        data=json.dumps(message, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "agent-harness"},
    )
    with urllib.request.urlopen(request, timeout=SEND_SECONDS) as answer:  # noqa: S310
        return None if answer.status < 300 else f"the server answered {answer.status}"


def _run(command: str, message: JsonObject, environ: Mapping[str, str]) -> str | None:
    import shlex

    words = [*shlex.split(command), str(message["title"]), str(message["text"])]
    done = subprocess.run(
        words,
        input=json.dumps(message, ensure_ascii=False).encode(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=SEND_SECONDS,
        env=dict(environ),
        check=False,
    )
    if done.returncode == 0:
        return None
    return redact(f"it ended with {done.returncode} {done.stderr.decode(errors='replace').strip()[:200]}".strip())


def _apprise(target: str, message: JsonObject) -> str | None:
    try:
        import apprise
    except ImportError:
        from agent_harness.installation import command_for_extra

        return f"the extra `notify` is not installed: {command_for_extra('notify')}"
    sender = apprise.Apprise()
    if not sender.add(target):
        return "apprise does not know this address"
    answers = [f"> {each}" for each in message["answer"]]
    text = "\n".join([str(message["text"]), *answers])
    return None if sender.notify(title=str(message["title"]), body=text) else "it was not delivered"


def _home(*, make: bool) -> str | None:
    return trusted_state.of_user("notify", make=make)


def _record() -> JsonObject:
    home = _home(make=False)
    if home is None:
        return {}
    try:
        return files.read_json(os.path.join(home, FILE))
    except (OSError, HarnessError):
        return {}


def _change(act: Any) -> None:
    home = _home(make=True)
    if home is None:
        raise ConfigurationError("Cannot write to your settings folder", hint="harness doctor")
    record = _record()
    act(record)
    files.write_json(os.path.join(home, FILE), record)
    with suppress(OSError):
        os.chmod(os.path.join(home, FILE), 0o600)


__all__ = ["add", "change", "hours_of", "read", "remove", "send", "settle", "shown"]
