"""Usage of a slice, as the real clients print it: lines recorded from Codex 0.169 and Claude Code 2.1."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import claude_code
from agent_harness.protocols.longtask import log
from agent_harness.protocols.longtask.records import LogEvent
from agent_harness.protocols.longtask.run.worker import printed_usage
from agent_harness.testing.long_task_project import LongTaskProject, argv, book, program

Record = dict[str, Any]
CODEX = (
    '{"type":"thread.started","thread_id":"01a2"}\n{"type":"turn.started"}\n'
    '{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Say \\"turn.completed\\"."}}\n'
    '{"type":"turn.completed","usage":{"input_tokens":19434,"cached_input_tokens":434,"cache_write_input_tokens":0,'
    '"output_tokens":106,"reasoning_output_tokens":0}}\n'
)
CODEX_TEXT = "codex\nThe part is written.\ntokens used\n19,540\n"
SPENT = {"input_tokens": 25460, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 7, "output_tokens": 55}
MODEL = {"inputTokens": 25460, "outputTokens": 55, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 40}
SMALL = {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3, "costUSD": 0.1}
CLAUDE: Record = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": 'The "second" part.\nIt is written.',
    "total_cost_usd": 0.10294,
    "usage": SPENT,
}


def used(*counts: int | None, cost: float | None = None) -> Record:
    """A usage of uncached input, output, cached input and their total without the cached."""
    names = ("inputTokens", "outputTokens", "cachedTokens", "totalTokens")
    return {**dict(zip(names, counts, strict=True)), "costUsd": cost}


def lines(*records: object) -> str:
    """One JSON value a line."""
    return "".join(f"{json.dumps(each)}\n" for each in records)


@pytest.mark.parametrize(
    ("worker", "stdout", "stderr", "expected"),
    [
        ("codex-cli", CODEX, "", used(19_000, 106, 434, 19_106)),
        ("codex-cli", CODEX + CODEX.replace("19434", "434"), CODEX_TEXT, used(0, 106, 434, 106)),
        ("codex-cli", "The part is written.\n", CODEX_TEXT, used(None, None, None, 19_540)),
        ("codex-cli", "", "tokens used: 512", used(None, None, None, 512)),
        ("codex-cli", "", "tokens used\n1\u202f234\u202f567\n", used(None, None, None, 1_234_567)),
        ("codex-cli", "", f"{CODEX_TEXT}and then it failed\n", None),
        ("codex-cli", '{"type":"turn.failed","error":{"message":"no"}}\n', "", None),
        ("codex-cli", "{} turn.completed\n" + '{"type":"turn.completed","usage":{"input_tokens":"many"}}', "", None),
        ("codex-cli", '{"type":"turn.completed","usage":{"input_tokens":-1,"output_tokens":true}}', "", None),
        ("codex-cli", '{"type":"turn.completed","usage":[]}\n{"type":"turn.completed"', "", None),
        ("claude-code", lines(CLAUDE), "", used(25_500, 55, 7, 25_555, cost=0.10294)),
        ("claude-code", lines([{"type": "system"}, CLAUDE]), "", used(25_500, 55, 7, 25_555, cost=0.10294)),
        (
            "claude-code",
            lines({"type": "system"}, CLAUDE, {**CLAUDE, "modelUsage": {"big": MODEL, "small": SMALL}}),
            "",
            used(25_501, 57, 10, 25_558, cost=0.10294),
        ),
        ("claude-code", lines({**CLAUDE, "modelUsage": {}, "total_cost_usd": 1e300}), "", used(25_500, 55, 7, 25_555)),
        ("claude-code", lines({**CLAUDE, "usage": None}), "", None),
        ("claude-code", "plain words about a result\n", "", None),
        ("kimi-cli", CODEX, CODEX_TEXT, None),
        ("local-command", CODEX, CODEX_TEXT, None),
    ],
)
def test_what_a_worker_says(worker: str, stdout: str, stderr: str, expected: Record | None) -> None:
    assert printed_usage(worker, stdout, stderr) == expected


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        (lines(CLAUDE), CLAUDE["result"]),
        (f"a warning\n{lines(CLAUDE)}", f"a warning\n{CLAUDE['result']}"),
        (lines([{"type": "system"}, CLAUDE]), CLAUDE["result"]),
        (lines({**CLAUDE, "result": None}), lines({**CLAUDE, "result": None})),
        (lines({"type": "other"}), lines({"type": "other"})),
        ("plain words\n", "plain words\n"),
        ('{"type":"result"', '{"type":"result"'),
        ("", ""),
    ],
)
def test_what_claude_said_comes_out_of_its_object(stdout: str, expected: str) -> None:
    assert claude_code.unwrapped(stdout) == expected


def ended(kind: str = "worker_completed", **members: object) -> Record:
    """The event of a worker's end."""
    return {"type": kind, **members}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], {"knownRuns": 0, "unknownRuns": 0, **used(0, 0, 0, 0)}),
        ([ended(), {"type": "tick_started"}], {"knownRuns": 0, "unknownRuns": 1, **used(0, 0, 0, 0)}),
        (
            [ended(usage=used(1, 2, 3, 3, cost=0.5)), ended("worker_failed", usage=used(10, 20, 30, 30, cost=0.25))],
            {"knownRuns": 2, "unknownRuns": 0, **used(11, 22, 33, 33, cost=0.75)},
        ),
        (
            [ended(usage=used(1, 2, 3, 3, cost=0.5)), ended(usage=used(None, None, None, 7)), ended(usage=7)],
            {"knownRuns": 2, "unknownRuns": 1, **used(1, 2, 3, 10)},
        ),
    ],
)
def test_the_sum_says_what_is_not_known(events: list[Record], expected: Record) -> None:
    assert log.total_usage(map(LogEvent, events)) == expected


def test_usage_is_in_the_answer_the_log_and_the_summary(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(context={"repoPath": "."}, codexWorker={"extraArgs": ["--json"]})
    (tmp_path / "said").write_text(CODEX)
    (tmp_path / "wrapped").write_text(lines(CLAUDE))
    said = {"codex": f"cat >/dev/null; cat {tmp_path}/said", "claude": f"cat {tmp_path}/wrapped", "kimi": "echo done"}
    for name, script in said.items():
        program(tmp_path / "bin", name, script)
    env = program(tmp_path / "bin", "openclaw", "true")
    codex = project.lth("run", "--worker", "codex", env=env, code=0).json
    assert codex["usage"] == used(19_000, 106, 434, 19_106) == project.events("worker_completed")[0]["usage"]
    claude = project.lth("run", "--worker", "claude", env=env, code=0).json
    assert claude["usage"] == used(25_500, 55, 7, 25_555, cost=0.10294)
    assert f"## stdout\n{CLAUDE['result']}\n## stderr" in project.outputs()[1]
    kimi = project.lth("run", "--worker", "kimi", env=env, code=0).json
    assert kimi["usage"] is None and "usage" not in project.events("worker_completed")[2]
    told = project.lth("summary").json["usage"]
    assert told == {"knownRuns": 2, "unknownRuns": 1, **used(44_500, 161, 441, 44_661)}
    assert "usage:      44661 tokens, cost unknown, in 2 runs; not reported by 1 more" in project.lth("status").out


def test_a_slice_under_way_is_not_counted_as_silent(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    project.run(f"{shlex.join(argv('status', str(project.root)))} > artifacts/said.txt")
    assert "usage:      none yet" in (project.root / "artifacts/said.txt").read_text()
    assert "usage:      unknown; not reported by 1 run" in project.lth("status").out
