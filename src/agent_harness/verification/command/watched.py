"""Evaluation of a run whose command may have started pytest.
A command may ignore pytest's results. If no pytest process loaded the recorder, only the exit status counts."""

from dataclasses import replace

from agent_harness.verification.check import Command
from agent_harness.verification.runner.execution import Watched
from agent_harness.verification.runner.testreport import ReportProblem, believed, check_sessions, read_cases
from agent_harness.verification.verdict import Run


def judged(command: Command, watched: Watched, plain: Run) -> Run:
    """Return the run ``plain``, extended by the trusted part of the test report."""
    done, sessions, path = watched
    last = None if done.exit_code == 0 else -1
    run = replace(watched.seen(plain), goes_on=any(each.finished != 0 for each in list(sessions.values())[:last]))
    if not command.pytest and not run.started:
        return run
    if done.exit_code and not done.timed_out and not any(each.began for each in sessions.values()):
        return run
    judged = {key: each for key, each in sessions.items() if command.pytest or not each.finished}
    try:
        if judged or command.pytest:
            check_sessions(judged)
        if command.pytest and done.exit_code == 0 and {each.finished for each in sessions.values()} != {0}:
            raise ReportProblem("the process ended with 0, and pytest did not")
        is_ours = command.pytest or (len(sessions) == 1 and path.exists())
        report = believed(sessions, read_cases(path)) if is_ours else run.seen
    except ReportProblem as problem:
        return replace(run, problem=str(problem))
    nothing = not (command.pytest or report.passing or done.exit_code)
    return run if nothing else replace(run, report=report)
