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


def signer(content: bytes, armored: str, signers: str | None) -> tuple[bool, str]:
    """Return True if the signature holds, and who signed the content, or else the reason."""
    with TemporaryFolder() as folder:
        place, words, name = Path(folder.path, "signature"), ("check-novalidate",), ""
        place.write_text(armored)
        if signers is not None:
            code, out, said = _ssh_keygen("find-principals", "-s", str(place), "-f", signers)
            if code != 0:
                return False, f"{signers} does not name the key of the signature: {said}"
            name = out.splitlines()[0]
            words = ("verify", "-f", signers, "-I", name)
        code, out, said = _ssh_keygen(*words, "-n", NAMESPACE, "-s", str(place), given=content)
    if code != 0:
        return False, f"the signature does not hold: {said}"
    key = next(iter(re.findall(r"SHA256:\S+", out)), "")
    return True, f"signed by {name} with key {key}" if name else f"signed by key {key}, whose owner is not checked"


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
