"""``harness limits``: the clock of rate limits, shown and corrected by a person."""

import json

import click

from agent_harness.cli.click_options import json_option


@click.group(
    invoke_without_command=True,
    short_help="Show which accounts are rate limited.",
    epilog="""\b
Examples:
  harness limits
  harness limits clear claude-code""",
)
@json_option
@click.pass_context
def limits(ctx: click.Context, as_json: bool) -> int:
    """Show which accounts are refused by their provider, until when, and who said so. Every run asks this clock."""
    if ctx.invoked_subcommand:
        return 0
    from agent_harness.kernel import clock
    from agent_harness.kernel.rate_limits import LimitClock
    from agent_harness.supervision.dispatch import spoken

    found, now = LimitClock().all(), clock.now()
    if as_json:
        rows = [{**each.as_record(), "seconds_left": round(each.seconds_left(now), 1)} for each in found]
        click.echo(json.dumps({"ok": True, "limits": rows}, ensure_ascii=False))
        return 0
    for each in found:
        click.echo(f"{each}; {spoken(each.seconds_left(now))} left")
        click.echo(f"  said: {each.said or 'nothing'}")
    click.echo("next: harness limits clear ACCOUNT   to try at once" if found else "No account is rate limited.")
    return 0


@limits.command(short_help="Forget a rate limit.", epilog="Example:  harness limits clear claude-code")
@click.argument("account")
@json_option
def clear(account: str, as_json: bool) -> int:
    """Forget what is known of an account: the next run tries at once, and a run that waits goes on."""
    from agent_harness.kernel.rate_limits import LimitClock

    there = LimitClock().forget(account)
    if as_json:
        click.echo(json.dumps({"ok": True, "account": account, "cleared": there}, ensure_ascii=False))
    else:
        click.echo(f"Forgot the limit of {account}." if there else f"Nothing is known of {account}: harness limits")
    return 0
