"""``lth schedule``: configuration with which cron or a systemd timer runs a task at regular intervals.

The configuration is only printed. The user installs it. Two runs never overlap, because a task has only one lease. In
addition, a systemd timer waits until the previous run has ended. Source: ``scale.md`` 9."""

from __future__ import annotations

import os
import re

from agent_harness.errors import UsageError
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask.run import adapters
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.verbs import recipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import ScheduleOptions

FORMS = ("cron", "systemd")
_EVERY = re.compile(r"([1-9][0-9]{0,3})(m|h|d)")
_MINUTES = {"m": 1, "h": 60, "d": 1440}
_BY_CRON = {"m": (60, "*/{n} * * * *"), "h": (24, "0 */{n} * * *"), "d": (1, "0 0 * * *")}


def schedule(layout: LongTaskLayout, options: ScheduleOptions) -> tuple[str, int]:
    """Return the cron or systemd configuration that runs the task, and the exit status."""
    if options.verbs:
        raise UsageError(f"--{options.verbs[0]} needs --engine URL", hint=f"lth schedule {layout.root} --help")
    if options.form not in FORMS:
        raise UsageError("--print needs a value: cron or systemd", hint=f"lth schedule {layout.root} --print cron")
    task, _ = LongTaskStore(layout).load()
    found = _EVERY.fullmatch(options.every or "10m")
    if found is None:
        raise UsageError(f"--every must be a time span, got {options.every!r}", hint="--every 10m, 2h or 1d")
    named = options.worker or task.policy.preferred or ""
    worker = adapters.normalised(named) if named else ""
    if not worker or not adapters.is_runnable(worker):
        raise UsageError("No worker is set for unattended runs", hint="--worker codex-cli")
    seconds = ["--timeout-seconds", str(options.timeout_seconds)] if options.timeout_seconds else []
    more = [*recipe.fallback_words(task, worker), *seconds]
    argv = [*recipe.program(), "run", os.path.abspath(layout.root), "--no-wait", "--worker", worker, *more]
    count, unit = int(found[1]), found[2]
    if options.form == "cron":
        return _cron(argv, count, unit, os.path.abspath(layout.root)), 0
    return _systemd(argv, count * _MINUTES[unit], re.sub(r"[^A-Za-z0-9_.-]", "-", task.id)), 0


def _cron(argv: list[str], count: int, unit: str, root: str) -> str:
    whole, form = _BY_CRON[unit]
    if (count >= whole > 1) or whole % count:
        hint = "use an even fraction of an hour or a day (10m, 2h, 1d), or --print systemd"
        raise UsageError(f"cron cannot run a command every {count}{unit}", hint=hint)
    place = f"PATH={adapters.quoted(os.environ.get('PATH', os.defpath))}"
    errors = adapters.quoted(os.path.join(root, "cron-errors.log"))
    line = f"{place} {adapters.quoted(*argv)} 2>> {errors} > /dev/null".replace("%", r"\%")
    told = f"# run crontab -e and add this line; lth status {adapters.quoted(root)} shows the progress"
    return f"{told}\n{form.format(n=count)} {line}\n"


def _systemd(argv: list[str], minutes: int, name: str) -> str:
    unit = f"lth-{name}"
    words = " ".join(map(_word, argv))
    return f"""\
# ~/.config/systemd/user/{unit}.service
[Unit]
Description=A slice of the long task {name}

[Service]
Type=oneshot
Environment={_word(f"PATH={os.environ.get('PATH', os.defpath)}")}
ExecStart={words}

# ~/.config/systemd/user/{unit}.timer
[Unit]
Description=Slices of the long task {name}

[Timer]
OnActiveSec=1min
OnUnitInactiveSec={minutes}min

[Install]
WantedBy=timers.target

# then: systemctl --user daemon-reload && systemctl --user enable --now {unit}.timer
# to keep the timer running while nobody is logged in: loginctl enable-linger
"""


def _word(text: str) -> str:
    # systemd expands % and $
    return jsontext.line(text).replace("%", "%%").replace("$", "$$")
