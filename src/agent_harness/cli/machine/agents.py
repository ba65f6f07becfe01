"""``harness agents``, which lists the agents on this machine, and ``harness limits``, which lists rate limits."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_harness.cli.terminal import json_option, show
from agent_harness.errors import UsageError

if TYPE_CHECKING:
    from agent_harness.agents.discovery import FoundAgent
    from agent_harness.kernel.host import AccountTerms


@click.command(epilog="Example:  harness agents --json")
@json_option
def agents(as_json: bool) -> int:
    """Show the agents on this machine: version, oldest supported version, sign-in state and abilities.

    The list also names the installed extras, and the agent that a run without --agent uses. The command reads no key
    and contacts no provider, so only a run shows if a key or login is still valid.
    """
    from agent_harness.agents import discovery

    there, extras = discovery.agents(os.environ), discovery.extras()
    choice = discovery.chosen(os.environ, *settings_here())
    if as_json:
        answer = {
            "ok": True,
            "agents": [each.as_json() for each in there],
            "keys": discovery.keys(os.environ),
            "extras": extras,
            "chosen": choice,
        }
        click.echo(json.dumps(answer, ensure_ascii=False))
        return 0
    for each in (each for each in there if each.ready):
        signing_in = f"{each.signing_in}: {each.sign_in}" if each.sign_in else each.signing_in
        told = [_versions(each), signing_in, f"can {', '.join(each.can)}"]
        show(f"ok  {each.spec:<22} {'; '.join(t for t in told if t)}")
    show("ok  command:WORDS          any program that reads a prompt on standard input")
    for each in (each for each in there if each.program and not each.ready):
        show(f"--  {each.spec:<22} {each.problem}")
    show(f"--  not here:              {', '.join(each.spec for each in there if not each.ready and not each.program)}")
    for extra in extras:
        told = "installed" if extra["installed"] else f"missing: {extra['install']}"
        show(f"{'ok' if extra['installed'] else '--'}  extra {extra['name']:<16} {extra['serves']}; {told}")
    if choice["kind"]:
        show(f"A run uses: {choice['kind']} (source: {choice['source']})")
        show(
            f"  but: {choice['problem']}\nnext: harness run --agent SPEC" if choice["problem"] else "next: harness run"
        )
    else:
        show(f"{choice['problem']}.\nnext: {choice['hint']}")
    return 0


def _versions(agent: "FoundAgent") -> str | None:
    if agent.program is None:
        return None
    if agent.too_old:
        return f"{agent.version} is too old; the oldest supported version is {agent.oldest}"
    return f"{agent.version or 'version unknown'}, oldest supported version: {agent.oldest or 'unknown'}"


def settings_here() -> tuple[Any, Path | None]:
    """Return the agent setting and the folder of the nearest feature project. Return (None, None) if there is none."""
    from agent_harness.errors import HarnessError
    from agent_harness.kernel import root

    try:
        project = root.find()
        if project is None or project.kind != "features":
            return None, None
        from agent_harness.protocols.features import api

        return api.settings(project.path).agent, Path(project.path)
    except HarnessError:
        return None, None


# ---- rate limits -----------------------------------------------------------------------------------------------------


@click.group(
    invoke_without_command=True,
    epilog="""\b
Examples:
  harness limits
  harness limits --host
  harness limits clear claude-code
  harness limits clear --all""",
)
@click.option("--host", "of_host", is_flag=True, help="Show this machine's agent slots, and the runs that use them.")
@json_option
@click.pass_context
def limits(ctx: click.Context, of_host: bool, as_json: bool) -> int:
    """Show the accounts whose provider refuses requests, until when, and which run reported it. Every run checks this
    list.

    After a refusal, the harness reduces the number of agents of an account. The list includes these accounts. With
    --host, the command shows the limits on concurrent agents (also for each account) and on concurrent check runs on
    this machine, and the agents and check runs that are running.
    """
    if ctx.invoked_subcommand:
        return 0
    if of_host:
        return _limits_of_host(as_json)
    from agent_harness.kernel import clock
    from agent_harness.kernel.rate_limits import LimitClock
    from agent_harness.supervision.dispatch import spoken

    found, now, throttles = LimitClock().all(), clock.now(), _throttles()
    if as_json:
        rows = [
            {**each.as_notice(), **each.as_record(), "seconds_left": round(each.seconds_left(now), 1)} for each in found
        ]
        click.echo(json.dumps({"ok": True, "limits": rows, "gates": throttles}, ensure_ascii=False))
        return 0
    for each in found:
        show(f"{each}; {spoken(each.seconds_left(now))} left, until {clock.local(each.until)} local time")
        show(f"  the provider said: {each.said or 'nothing'}")
    if not found:
        show("No account is rate limited.")
    for throttle in throttles:
        at_work = f"{throttle['working']} agent{'s' if throttle['working'] != 1 else ''} at work"
        let_in = f"after a refusal, at most {throttle['size']} of {throttle['most']} agents may run, one more at "
        let_in += throttle["grows_local"]
        show(f"{throttle['account']}: {at_work}; {let_in} if no agent is refused until then")
    if found or throttles:
        show("next: harness limits clear ACCOUNT  # to try immediately")
    return 0


def _throttles() -> list[dict[str, Any]]:
    """Return a row for each account that runs fewer agents because its provider refused requests."""
    from agent_harness.kernel import clock, host
    from agent_harness.kernel.host.throttles import QUIET
    from agent_harness.kernel.rate_limits import LimitClock

    rows: list[dict[str, Any]] = []
    for account in LimitClock().throttled():
        most = host.account_terms(account).agents
        if throttle := LimitClock().throttle(account, most):
            grows = clock.moment((throttle.quiet_since + QUIET) * clock.time_scale())
            told = {"account": account, "size": throttle.size, "most": most, "working": host.working(account)}
            rows.append(told | {"grows_at": clock.timestamp(grows), "grows_local": clock.local(grows)})
    return rows


def _limits_of_host(as_json: bool) -> int:
    from agent_harness.kernel import host

    known, found = host.limits(), host.holders()
    terms = host.terms_of_accounts()
    accounts = {name: {"agents": each.agents, **_input(name, each)} for name, each in terms.items()}
    if as_json:
        answer = {"ok": True, "host": {**known}, "accounts": accounts, "holders": found}
        click.echo(json.dumps(answer, ensure_ascii=False))
        return 0
    for kind, most in known.items():
        held = [each for each in found if each["kind"] == kind]
        show(f"{kind}: {len(held)} of {most}")
        for each in held:
            where = f"{each.get('project')}: {each.get('item')}"
            run = f"run {each['run']}, " if each.get("run") else ""
            account = f"{each['account']}, " if each.get("account") else ""
            show(f"  {each['number']}  {where} ({account}{run}process {each['pid']})")
    for account, own in accounts.items():
        told = f"{sum(each.get('account') == account for each in found)} of {own['agents']} agents"
        most, used = own.get("input_tokens_per_minute"), own.get("input_tokens_a_minute")
        show(f"{account}: {told}" + (f", {used} of {most} input tokens a minute" if most else ""))
    return 0


def _input(account: str, terms: "AccountTerms") -> dict[str, int]:
    """Return the account's used and allowed input tokens per minute, or {} if it has no limit."""
    from agent_harness.kernel import clock, host
    from agent_harness.kernel.host import throttles

    if terms.input_tokens_per_minute is None:
        return {}
    with host.choosing():
        used = host.input_since(account, clock.scaled(throttles.WINDOW))
    known = {"input_tokens_per_minute": terms.input_tokens_per_minute}
    return known | {"input_tokens_a_minute": round(used * 60 / throttles.WINDOW)}


@limits.command(
    short_help="Lift a rate limit.",
    epilog="""\b
Examples:
  harness limits clear openai:key-12ab34cd56ef
  harness limits clear codex                        the account that this client has here
  harness limits clear --all""",
)
@click.argument("account", required=False)
@click.option("--all", "everything", is_flag=True, help="Lift every rate limit.")
@json_option
def clear(account: str | None, everything: bool, as_json: bool) -> int:
    """Lift the rate limit of an account. ACCOUNT may also be the name of an agent client.

    The next run tries the account immediately. Waiting runs continue, and blocked long tasks may run again.
    """
    from agent_harness.kernel.rate_limits import LimitClock

    if everything == bool(account):
        raise UsageError("Give one account, or --all", hint="harness limits")
    clock = LimitClock()
    known = [*(each.account for each in clock.all()), *clock.throttled()]
    accounts = list(dict.fromkeys(known)) if everything else [_account(str(account))]
    held = clock.throttled()
    cleared = {each: clock.forget(each) or each in held for each in accounts}
    if as_json:
        named = {} if everything else {"account": accounts[0], "cleared": cleared[accounts[0]]}
        lifted = [each for each, there in cleared.items() if there]
        click.echo(json.dumps({"ok": True, **named, "lifted": lifted}, ensure_ascii=False))
        return 0
    for each, there in cleared.items():
        none = f"{each} had no rate limit (see: harness limits). A long task that waits for {each} may run again."
        show(f"Lifted the limit of {each}." if there else none)
    if not cleared:
        show("No account is rate limited.")
    return 0


def _account(named: str) -> str:
    """Return the account with this name. If an agent client has this name, return the client's account."""
    from agent_harness.kernel.rate_limits import LimitClock

    if named in LimitClock().throttled() or any(each.account == named for each in LimitClock().all()):
        return named
    from agent_harness.agents import registry

    kind = _WORKERS.get(named, named)
    return registry.from_spec(kind).account if kind in _WORKERS.values() else named


_WORKERS = {"claude": "claude-code", "codex": "codex", "codex-cli": "codex", "kimi": "kimi", "kimi-cli": "kimi"}
"""Map from the worker names of ``lth`` to the kind of agent that uses the same account."""
