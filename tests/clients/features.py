"""A feature project that a real client works on through ``harness run``, beside its model server."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acceptance.calc import CalcProject, make
from acceptance.script import CODE, name_of, proof_path, proof_text
from agent_harness.testing import CommandResult

from .client import LIMIT_SECONDS, Client, Codex

WORK = """\
import json, pathlib, subprocess, sys

act, told = sys.argv[1], json.loads(pathlib.Path(sys.argv[2]).read_text())
if act == "implement":
    with open("src/calc.py", "a") as code:
        code.write("\\n\\n" + told["code"])
    pathlib.Path(told["path"]).write_text(told["proof"])
elif act == "claim":
    file = pathlib.Path("features.json")
    whole = json.loads(file.read_text())
    for each in whole["features"]:
        each["passes"] = each["passes"] or each["id"] == told["feature"]
    file.write_text(json.dumps(whole, indent=2) + "\\n")
elif act == "commit":
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", "commit", "-q", "-m", "Implement " + told["name"]], check=True)
print(act, "is done")
"""


class ClientProject(CalcProject):
    """The fixture project of the scenarios, with a real client as its agent."""

    def __init__(self, made: CalcProject, client: Client) -> None:
        super().__init__(made.base, made.root, made.environ, seam=made.seam)
        self.client = client

    def command(self, *args: str, agent: Sequence[Mapping[str, object]] | str | None = None) -> list[str]:
        """The harness, in the model server's network."""
        return self.client.island.beside(super().command(*args, agent=agent))

    def harness_run(self, *args: str, **environ: str) -> CommandResult:
        """``harness run`` with this client as the agent."""
        return self.harness("run", *args, agent=self.client.name, timeout=LIMIT_SECONDS * 2, environ=environ)

    def work(self, act: str, feature: int) -> str:
        """The command by which the model does one part of a feature's work."""
        return f"python3 {self.base}/work.py {act} {self.base}/work-{feature}.json"

    def honest(self, feature: int) -> list[Any]:
        """A whole session of the model: the work, its proof, the claim, a commit."""
        commands = [
            self.work("implement", feature),
            f"python3 -m pytest {proof_path(feature)} -v",
            self.work("claim", feature),
            self.work("commit", feature),
        ]
        return [*({"run": command} for command in commands), f"Feature #{feature} is done."]

    def told_the_model(self, text: str) -> list[int]:
        """The numbers of the model calls whose request holds this text."""
        asked = [json.dumps(body, ensure_ascii=False) for body in self.client.island.conversations()]
        return [number for number, body in enumerate(asked) if text in body]


def client_project(base: Path, client: Client, features: Sequence[int] = (1,)) -> ClientProject:
    """A fresh project with these features; the client is found on PATH."""
    made = make(base, client.env, features=features)
    if isinstance(client, Codex):
        client.configure(made.root)
    calc = ClientProject(made, client)
    (base / "work.py").write_text(WORK)
    for feature in features:
        told = {
            "feature": feature,
            "name": name_of(feature),
            "code": CODE[name_of(feature)],
            "path": proof_path(feature),
            "proof": proof_text(feature),
        }
        (base / f"work-{feature}.json").write_text(json.dumps(told))
    return calc
