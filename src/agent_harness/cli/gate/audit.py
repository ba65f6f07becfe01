"""``harness audit``: whether receipts are as they were written, and whether the verdict comes out again."""

import json

import click

from agent_harness.cli.gate.gate import leaving_nothing
from agent_harness.cli.terminal import json_option, say_to, screen, show
from agent_harness.kernel.terminal import printable


@click.command(
    epilog="""\b
Examples:
  harness audit receipts/*.json
  harness audit receipt.json --signers allowed_signers
  harness audit receipt.json --rerun --repo ../clone""",
)
@click.argument("paths", metavar="FILE...", nargs=-1, required=True)
@click.option("--rerun", is_flag=True, help="Judge the change again, and compare the verdict and each test.")
@click.option("--check", "checks", metavar="COMMAND", multiple=True, help="Command of the receipt; may be repeated.")
@click.option("--signers", metavar="FILE", help="Require a signature by a key in FILE, which ssh-keygen reads.")
@click.option("--repo", metavar="DIR", default=".", help="Folder of the repository. [default: the current folder]")
@json_option
def audit(
    *, paths: tuple[str, ...], rerun: bool, checks: tuple[str, ...], signers: str | None, repo: str, as_json: bool
) -> int:
    """Check receipts of harness gate: each byte, the signature, the chain and the commits.

    Without --rerun, no command of a project is run. With --rerun, the gate judges the change again. If a person named
    the commands of a receipt, you must read and repeat them with --check.

    Exit code: 0 all is right, 1 something differs, 4 a receipt cannot be read or judged again.
    """
    from agent_harness.errors import UnsafeTree
    from agent_harness.gate import audit as audits
    from agent_harness.kernel.git import Git

    git, say = Git(repo), say_to(as_json=as_json)
    if not git.is_repository:
        raise UnsafeTree(f"{git.root} is not in a git repository", hint="harness audit FILE --repo DIR")
    with leaving_nothing(git), screen(as_json=as_json).watching(list):
        found = audits.audit(paths, Git(git.top()), signers=signers, rerun=rerun, checks=tuple(checks), say=say)
    code = audits.exit_code(found)
    if as_json:
        click.echo(json.dumps({"ok": code == 0, "receipts": found}, ensure_ascii=False))
    else:
        show("\n".join(map(printable, audits.lines(found))))
    return code
