"""The facts in every view of one project, in the same form, and the contradictions between views."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_harness.kernel import clock, root
from agent_harness.testing import CommandResult
from agent_harness.views.report import values
from agent_harness.views.serve import pages
from agent_harness.views.serve.pages import Frame
from agent_harness.views.serve.window import Window

Say = Callable[..., CommandResult]
"""A command of ``harness`` in the project's folder."""


class Views:
    """Output of each view, read once."""

    def __init__(self, folder: Path, harness: Say, lth: Say | None = None) -> None:
        found = root.find(str(folder), pin=False)
        assert found is not None
        self.kind = found.kind
        self.harness = harness
        self.watch = self.json("watch")
        self.report = self.json("report")
        self.costs = self.json("costs")
        self.why = {each["id"]: self.json("why", f"#{each['id']}") for each in self.watch["items"]}
        self.log = {item: self.json("log", "query", "--item", item, "--limit", "500")["rows"] for item in self.why}
        self.status = self.json("status") if lth is None else json.loads(lth("summary").out)
        window = Window([(found.kind, found.path)])
        (self.served,) = window.look()
        assert not isinstance(self.served.seen, str), self.served.seen
        view = self.served.seen.view
        frame = Frame(token="t", revision="1")
        self.page = pages.one_project(
            self.served,
            self.served.seen,
            lambda: values.read(view, chain=None, at=clock.now()),
            frame,
            at=clock.now(),
        )
        self.text = re.sub(r"<[^>]+>", " ", self.page)

    def json(self, *words: str) -> Any:
        ran = self.harness(*words, "--json")
        assert ran.code == 0, (words, ran)
        return ran.json

    # ---- the same of each

    def states(self) -> dict[str, dict[str, str]]:
        """Return the state of every item, by view."""
        told = {each["id"]: each["state"] for each in self.report["open"]}
        told |= {each["id"]: "proven" for name in ("done", "by_word") for each in self.report[name]}
        assert not isinstance(self.served.seen, str)
        found = {
            "watch": {each["id"]: each["state"] for each in self.watch["items"]},
            "why": {item: each["state"] for item, each in self.why.items()},
            "report": told,
            "serve": {each.id: each.state for each in self.served.seen.view.items},
        }
        if self.kind != "longtask":
            rows = self.status["tasks" if self.kind == "tasklist" else "items"]
            found["status"] = {str(each["id"]): each["state"] for each in rows}
        return found

    def proven(self) -> dict[str, tuple[int, int]]:
        count = re.search(r"(\d+)/(\d+) proven", self.text)
        assert count is not None, self.text
        found = {
            "watch": (self.watch["proven"], self.watch["total"]),
            "report": (self.report["proven"], self.report["items"]),
            "costs": (self.costs["proven"], self.watch["total"]),
            "serve": (int(count[1]), int(count[2])),
        }
        if self.kind == "features":
            found["status"] = (self.status["features"]["passing"], self.status["features"]["total"])
        if self.kind == "tasklist":
            found["status"] = (
                self.status["counts"].get("completed", 0) - len(self.status["unproven"]),
                self.status["counts"]["total"],
            )
        if self.kind != "longtask":
            line = self.harness("status", "--line").out
            glance = re.search(r" (\d+)/(\d+) ", line)
            assert glance is not None, line
            found["status --line"] = (int(glance[1]), int(glance[2]))
        return found

    def spent(self) -> dict[str, float | None]:
        """Return the total spent, by view; ``None`` if unknown."""
        found = {
            "watch": self.watch["cost_usd"],
            "report": self.report["spent_usd"],
            "costs": self.costs["spent_usd"],
        }
        if self.kind == "longtask":
            usage = self.status["usage"]
            found["status"] = usage["costUsd"] if usage["knownRuns"] else 0.0 if not usage["unknownRuns"] else None
        elif self.kind == "tasklist":
            costs = self.status["costs"] or {"total_usd": 0.0, "attempts": 1, "attempts_of_unknown_cost": 0}
            unknown = costs["attempts_of_unknown_cost"] == costs["attempts"]
            found["status"] = None if unknown else costs["total_usd"]
        else:
            costs = self.status["costs"]
            unknown = costs["nothing_reported"] or (costs["sessions_of_unknown_price"] and not costs["total_usd"])
            found["status"] = None if unknown else costs["total_usd"]
        return found

    def spent_on(self) -> dict[str, dict[str, float]]:
        """Return the money spent on each item, by view, if all of it is known."""
        whole = {item: each["cost"] for item, each in self.why.items() if not each["cost"]["sessions_of_unknown_cost"]}
        rows = {each["name"]: each for each in self.costs["rows"] if not each["of_unknown_cost"]}
        found = {
            "why": {item: each["spent_usd"] for item, each in whole.items() if each["sessions"]},
            "costs": {item: each["spent_usd"] for item, each in rows.items() if item in self.why},
        }
        if self.kind == "tasklist":
            costs = self.status["costs"] or {"by_task": {}}
            found["status"] = {item: each for item, each in costs["by_task"].items() if each is not None}
        if self.kind == "features":
            by = self.status["costs"]["by_feature"]
            found["status"] = {item: round(by[item], 4) for item in whole if item in by and by[item] is not None}
            found["status"] |= {item: 0.0 for item, each in whole.items() if each["sessions"] and item not in by}
        return found

    def claims(self) -> dict[str, tuple[int, int]]:
        """Return the number of verified claims of agents and of rejected ones, by view."""
        told = [each for found in self.why.values() for each in found["claims"]]
        mine = [each for each in told if each["by"] == "agent" and each["claimed"]]
        found = {
            "why": (len(mine), sum(each["verdict"] != "accepted" for each in mine)),
            "report": (self.report["claims"], self.report["rejected"]),
        }
        if self.kind != "longtask":
            counted = self.status["claims"]
            found["status"] = (counted["judged"], counted["rejected"])
        return found

    def next(self) -> dict[str, str]:
        """Return the command to type now, by view."""
        found = {"watch": self.watch["next"], "report": self.report["next"]}
        if self.kind != "longtask":
            found["status"] = self.status["next"]
            (line,) = [each for each in self.harness("status").out.splitlines() if each.startswith("next ")]
            found["status as text"] = line.removeprefix("next").strip()
        return found

    def next_of_items(self) -> dict[str, dict[str, str]]:
        """Return the command to type now for each item that is not proven, by view."""
        return {
            "why": {item: each["next"] for item, each in self.why.items() if each["state"] != "proven"},
            "report": {each["id"]: each["next"] for each in self.report["open"]},
        }

    def asked(self) -> dict[str, list[str]]:
        """Return the messages of the pending questions, by view."""
        found = {
            "watch": [each["message"] for each in self.watch["questions"]],
            "report": [each["message"] for each in self.report["waits"]][: len(self.watch["questions"])],
        }  # what a person has to do beside answers comes after them
        if self.kind == "features":
            found["status"] = [each["message"] for each in self.status["questions"]]
        if self.kind == "tasklist":
            found["status"] = [self.status["halt"]["message"]] if self.status["halt"] else []
        return found

    def needed(self) -> dict[str, list[str]]:
        """Return the messages of the other needs of a person, by view."""
        first = len(self.watch["questions"])
        found = {
            "watch": [each["message"] for each in self.watch["needs"]],
            "report": [each["message"] for each in self.report["waits"]],
        }
        if self.kind != "longtask":
            found["status"] = [each["message"] for each in self.status["needs"]]
        return {view: messages[first:] for view, messages in found.items()}

    def untold(self) -> list[str]:
        """Return the verdicts and decisions missing from the log, and the log's completions that are not proven."""
        judged = [item for item, each in self.why.items() if each["claims"] and not self.log[item]]
        last = {item: str(rows[-1]["type"]) for item, rows in self.log.items() if rows}
        done = [item for item, kind in last.items() if kind == "Completed" and self.why[item]["state"] != "proven"]
        return [f"the log does not tell of {item}" for item in judged] + [
            f"the log ends {item} as done" for item in done
        ]

    # ---- the judgement

    def contradictions(self) -> list[str]:
        """Return the contradictions between two views, each in one line."""
        told: dict[str, dict[str, Any]] = {
            "states": self.states(),
            "proven": self.proven(),
            "spent": self.spent(),
            "spent on items": self.spent_on(),
            "claims": self.claims(),
            "next": self.next(),
            "next of items": self.next_of_items(),
            "questions": self.asked(),
            "needs": self.needed(),
        }
        found = self.untold()
        for what, by_face in told.items():
            first = by_face["watch"] if "watch" in by_face else by_face["why"]
            if any(each != first for each in by_face.values()):
                found.append(f"{what}: {by_face}")
        found += [
            f"serve does not show {item} as {each['state']}"
            for item, each in self.why.items()
            if each["state"] != "proven" and each["state"] not in self.text
        ]
        return found
