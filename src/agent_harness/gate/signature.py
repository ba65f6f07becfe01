"""Signatures with keys of SSH, made and checked by ``ssh-keygen -Y``. Nothing is asked: an ssh-agent may sign."""

import os
import re
from pathlib import Path
from shutil import which

from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel import process
from agent_harness.kernel.temporary import TemporaryFolder
from agent_harness.kernel.terminal import quoted

NAMESPACE = "agent-harness-receipt"


def made(content: bytes, key: str) -> str:
    """Return the armored signature of the content. Raise ``Refused`` if the key cannot sign without a question."""
    with TemporaryFolder() as folder:
        place = Path(folder.path, "receipt")  # a file, because ssh-keygen takes a passphrase from stdin
        place.write_bytes(content)
        code, _, said = _ssh_keygen("sign", "-n", NAMESPACE, "-f", key, str(place))
        if code != 0:
            hint = f"ssh-add {quoted(key)}  # if the key has a passphrase"
            raise Refused(f"the key {key} cannot sign: {said}", hint=hint)
        return place.with_suffix(".sig").read_text()


def signer(content: bytes, armored: str, signers: str | None) -> str:
    """Return who signed the content, in words. Raise ``ValueError`` if the signature does not hold."""
    with TemporaryFolder() as folder:
        place, name = Path(folder.path, "signature"), ""
        place.write_text(armored)
        words = ("-n", NAMESPACE, "-s", str(place))
        if signers is None:
            code, out, said = _ssh_keygen("check-novalidate", *words, given=content)
        else:
            code, out, said = _ssh_keygen("find-principals", *words[2:], "-f", signers)
            if code == 0:
                name = out.splitlines()[0]
                code, out, said = _ssh_keygen("verify", *words, "-f", signers, "-I", name, given=content)
    if code != 0:
        raise ValueError(f"the signature does not hold{f' by {signers}' if signers else ''}: {said}")
    key = next(iter(re.findall(r"SHA256:\S+", out)), "")
    return f"signed by {name} with key {key}" if signers else f"signed by key {key}, whose owner is not checked"


def _ssh_keygen(*words: str, given: bytes | None = None) -> tuple[int | None, str, str]:
    """Run ``ssh-keygen -Y``. Return its exit code, its output, and its error messages on one line."""
    program, errors = which("ssh-keygen"), bytearray()
    if program is None:
        raise ToolMissing("ssh-keygen is not installed, and signatures need it", hint="install OpenSSH")
    environ = {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}  # no window asks either
    command = [program, "-Y", *words]
    done = process.run(command, cwd=".", env=environ, timeout_seconds=60.0, input=given, on_errors=errors.extend)
    lines = (each for each in errors.decode("utf-8", "replace").splitlines() if not each.startswith(("@", "Signing")))
    said = " ".join(lines).removeprefix("Enter passphrase: ") or done.ending
    return done.exit_code, done.output.decode("utf-8", "replace"), said
