"""Paths of all files of a feature project; no other module contains these file names.

PROJECT/
  .harness.yaml            settings, committed
  features.json            the features, committed; authoritative on what is proven
  claude-progress.txt      the progress log for people and agents, committed
  init.sh                  starts the environment, committed
  reset.sh                 forces the environment into a clean state, committed
  .harness/                run-time state, ignored by git
    session_state.json     result of the last session, and the next step
    test_baseline.json     the tests known to pass
    costs.yaml             tokens and dollars, written in the JSON subset of YAML
    file_sizes.json        number of lines of each file, to detect growth
    quality.json           the last lint result, for `status`
    github_issues.json     which issue mirrors which feature
    parallel.json          progress of the parallel run
    lock                   lets only one harness run at a time
    maintenance.json       exists while maintenance mode is on
    aborted-TIME/          the state that `harness abort` moved away
    checkpoints/ID/        copies of the state before a session
    screenshots/session-N/ images that the agent of a session has looked at
    logs/                  events, decisions, agent_actions, sessions (.jsonl), init.log, run.log, session-N.log,
                           session-N.cassette.jsonl (for `--agent replay:FILE`)
.git/harness/
  open_session.json        copy of the running session's record, for people and for moved projects
$XDG_STATE_HOME/agent-harness/projects/NAME/     outside the project: ``kernel/trusted_state.py``
  open_session.json        the running or interrupted session
  proven.json              the features that the harness has accepted
  pause.json               a pause that a person started; exists until `harness resume`
  installed.json           packages that were installed before a session
  undo.json                an undo that is not yet complete
  run.lock                 lets only one harness run at a time, even if the lock in the project was removed
  verdicts.jsonl           the verdict on each claim, kept forever: ``session/ledger.py``

Settings under ``paths:`` can move features.json, the progress log and ``.harness/``. Source: features.md UAH-078..093,
C31."""

import os


class FeatureLayout:
    """Paths of all files of one project. They are plain strings instead of ``Path``, so that ``status`` starts fast."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        features: str = "features.json",
        progress: str = "claude-progress.txt",
        state_dir: str = ".harness",
    ) -> None:
        self.root = os.fspath(root)
        self.features = os.path.join(self.root, features)
        self.progress = os.path.join(self.root, progress)
        self.state_dir = os.path.join(self.root, state_dir)
        self.settings = os.path.join(self.root, ".harness.yaml")
        self.session_state = os.path.join(self.state_dir, "session_state.json")
        self.baseline = os.path.join(self.state_dir, "test_baseline.json")
        self.costs = os.path.join(self.state_dir, "costs.yaml")
        self.file_sizes = os.path.join(self.state_dir, "file_sizes.json")
        self.quality = os.path.join(self.state_dir, "quality.json")
        self.github_issues = os.path.join(self.state_dir, "github_issues.json")
        self.parallel = os.path.join(self.state_dir, "parallel.json")
        self.lock = os.path.join(self.state_dir, "lock")
        self.maintenance = os.path.join(self.state_dir, "maintenance.json")  # deleting it ends the mode
        self.checkpoints = os.path.join(self.state_dir, "checkpoints")
        self.sanity = os.path.join(self.state_dir, "sanity.sh")  # rewritten for each session, never trusted
        self.screenshots = os.path.join(self.state_dir, "screenshots")
        self.logs = os.path.join(self.state_dir, "logs")
        self.verdicts = os.path.join(self.logs, "verdicts")  # output of verification steps: N-STEP.txt

    def relative(self, path: str) -> str:
        """Return ``path`` relative to the project root, with forward slashes as in git."""
        return os.path.relpath(path, self.root).replace(os.sep, "/")

    def log(self, name: str) -> str:
        return os.path.join(self.logs, name)

    def transcript(self, session: int) -> str:
        return os.path.join(self.logs, f"session-{session}.log")

    def cassette(self, session: int) -> str:
        """Return the path of the session's recording, which ``--agent replay:FILE`` can play."""
        return os.path.join(self.logs, f"session-{session}.cassette.jsonl")

    @property
    def git_dir(self) -> str:
        dot_git = os.path.join(self.root, ".git")
        # `.git` can be a file that contains the path
        if os.path.isfile(dot_git):
            with open(dot_git, encoding="utf-8") as file:
                target = file.read().removeprefix("gitdir:").strip()
            return os.path.normpath(os.path.join(self.root, target))
        return dot_git

    @property
    def session_copy(self) -> str:
        """Path of the untrusted session record inside ``.git``."""
        return os.path.join(self.git_dir, "harness", "open_session.json")
