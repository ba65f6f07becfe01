"""Model of ``.harness.yaml``. To add a key, add a field and a row of ``DEFAULTS`` in ``tests/features/test_config.py``,
then run ``make docs``. A new section also needs a line in ``Config``. Unknown keys are kept and cause warnings.
Sources: ``features.md`` UAH-148..233, C04, C17, C18, C22, C26, C34, C51."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from agent_harness.kernel.process.limits import FREE_DISK, MEMORY, bytes_from, count_from
from agent_harness.kernel.process.sandbox import LEAST_MEMORY, LOOPBACK, OPEN, SandboxSettings
from agent_harness.session import parallel_settings

_SWITCHES = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def _switch(value: object) -> object:
    """Convert a YAML 1.1 word such as ``no`` to a boolean."""
    return _SWITCHES.get(value.lower(), value) if isinstance(value, str) else value


def _command(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _title(value: str) -> str:
    if not value.strip() or any(ord(c) < 32 for c in value):
        raise ValueError("must be one line of text that is not empty")
    return value


def _inside(value: str) -> str:
    parts = value.replace("\\", "/").split("/")
    if not value.strip() or value.startswith("/") or ".." in parts or "\0" in value:
        raise ValueError("must be a path inside the project")
    return value.rstrip("/")


def _folder(value: str) -> str:
    if _inside(value) in {".", ".git"} or value.startswith(".git/"):
        raise ValueError("must name a folder inside the project, and not .git")
    return value.rstrip("/")


Switch = Annotated[bool, BeforeValidator(_switch)]
Title = Annotated[str, AfterValidator(_title)]
Command = Annotated[str, AfterValidator(_command)]
OptionalCommand = Annotated[Command | None, BeforeValidator(_blank_is_none)]
Inside = Annotated[str, AfterValidator(_inside)]
Folder = Annotated[str, AfterValidator(_folder)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrNone = Annotated[int, Field(ge=0, le=1_000_000_000)]
Dollars = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]
Minutes = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]


class Section(BaseModel):
    """Base model of a settings section, in which an empty value counts as missing."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, validate_default=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, given: object) -> object:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


# -- the sections ------------------------------------------------------------------------------------------------------


class ProjectSection(Section):
    name: Title = Field(description="Name of the project. Required.")
    github_repo: Title | None = Field(
        None, description="GitHub repository (owner/name) for the harness's issues. github.repo overrides this setting."
    )


class Environment(Section):
    init: Command = Field(
        "./init.sh", description="Command that starts the development environment. Exit code 0 means success."
    )
    reset: Command = Field("./reset.sh", description="Command that resets the environment if environment.init fails.")
    health_check: OptionalCommand = Field(None, description="Command that exits with 0 if the environment is running.")
    stop: OptionalCommand = Field(None, description="Command that stops the processes that environment.init started.")


class Sanity(Section):
    health: OptionalCommand = Field(None, description="Health check command. Default: environment.health_check.")
    lint: OptionalCommand = Field(
        None, description="Lint command that the harness runs before new work starts. Default: quality.lint_command."
    )
    type_check: OptionalCommand = Field(None, description="Type-check command to run before new work starts.")


class Testing(Section):
    sanity: Sanity = Field(default_factory=Sanity)
    unit: OptionalCommand = Field(
        None, description="Command for fast tests. By default, the runner of testing.full runs tests/unit with -x."
    )
    e2e: OptionalCommand = Field(
        None, description="Command for end-to-end tests. By default, the runner of testing.full runs tests/e2e with -x."
    )
    full: OptionalCommand = Field(None, description="Command for the whole test suite. Default: pytest tests/ -v.")
    feature: OptionalCommand = Field(
        None,
        description="Command for the tests in {test_file}, a feature's test file. For Go and Rust: {test_folder}, "
        "{test_name}. Default: testing.full on this file.",
    )


class Costs(Section):
    per_session_usd: Dollars = Field(10.0, description="Budget of one session in US dollars.")
    per_feature_usd: Dollars = Field(25.0, description="Budget of one feature in US dollars, for all of its sessions.")
    total_project_usd: Dollars = Field(200.0, description="Budget of the whole project in US dollars.")


class Models(Section):
    default: Title = Field("claude-sonnet-4", description="Model for every session type that has no model of its own.")
    initializer: Title = Field("claude-sonnet-4", description="Model for the initializer session.")
    coding: Title = Field("claude-sonnet-4", description="Model for coding sessions.")
    continuation: Title = Field("claude-sonnet-4", description="Model for continuation sessions.")
    cleanup: Title = Field("claude-haiku-3", description="Model for cleanup sessions.")

    @model_validator(mode="before")
    @classmethod
    def _fall_back(cls, given: object) -> object:
        """Set each missing model for a prompt type to the default model (UAH-164)."""
        if not isinstance(given, Mapping) or given.get("default") is None:
            return given
        listed = {k: v for k, v in given.items() if v is not None}
        return dict.fromkeys(("initializer", "coding", "continuation", "cleanup"), given["default"]) | listed

    def for_prompt(self, prompt_type: str) -> str:
        # UAH-242
        own = {
            "initializer": self.initializer,
            "coding": self.coding,
            "continuation": self.continuation,
            "cleanup": self.cleanup,
        }
        return own.get(prompt_type, self.default)


class OnLimit(Section):
    auto_commit: Switch = Field(True, description="Commit unfinished work if the context limit ends the session.")
    commit_message_prefix: str = Field(
        "WIP: Context limit - ", description="Start of the commit message for unfinished work after the context limit."
    )
    append_to_progress: Switch = Field(
        True, description="Add an entry to the progress file if the context limit ends the session."
    )


class Context(Section):
    window_tokens: Count = Field(200_000, description="Size of the model's context window in tokens.")
    warn_threshold: Share = Field(0.75, description="Share of the context window at which the agent gets a warning.")
    force_threshold: Share = Field(0.90, description="Share of the context window at which the agent must finish.")
    on_limit: OnLimit = Field(default_factory=OnLimit)

    @model_validator(mode="after")
    def _in_order(self) -> "Context":
        if self.warn_threshold >= self.force_threshold:
            raise ValueError("warn_threshold must be below force_threshold")
        return self


def _repeated_error(count: object) -> str:
    return (
        f"You've hit the same error {count} times. This approach isn't working. Try something fundamentally different."
    )


class Progress(Section):
    check_interval_tokens: Count = Field(
        50_000, description="The harness checks progress each time the context has grown by this number of tokens."
    )
    stuck_warning: str = Field(
        "You appear stuck. Consider a different approach.",
        description="Message that the harness sends to the agent after the first check without progress.",
    )
    force_stop_after_stuck_checks: Count = Field(
        2, description="The harness ends the session after this number of checks without progress."
    )
    force_stop_message: str = Field(
        "Still stuck. Documenting current state and stopping. "
        "Please describe what's blocking you in claude-progress.txt.",
        description="Message that the harness sends to the agent before it ends a session without progress.",
    )
    max_repeated_errors: Count = Field(
        5, description="Number of equal errors after which the harness sends a message to the agent."
    )
    repeated_error_message: str = Field(
        _repeated_error(5), description="Message that the harness sends to the agent about a repeated error."
    )

    @model_validator(mode="before")
    @classmethod
    def _name_the_count(cls, given: object) -> object:
        if isinstance(given, Mapping) and given.get("repeated_error_message") is None:
            return {**given, "repeated_error_message": _repeated_error(given.get("max_repeated_errors") or 5)}
        return given


class Quality(Section):
    lint_command: OptionalCommand = Field(
        None, description="Lint command. Default: ruff, if the project can run ruff. The value '' disables linting."
    )
    max_file_lines: Count = Field(500, description="Maximum number of lines of a file. Longer files cause a warning.")
    cleanup_interval: Count = Field(10, description="Number of completed features between two cleanup sessions.")
    warn_on_lint_errors: Switch = Field(
        True, description="true: lint errors cause a warning. false: the harness rejects a session with lint errors."
    )


class Verification(Section):
    require_evidence: Switch = Field(True, description="Require that the agent shows a run of the feature's tests.")
    harness_verify: Switch = Field(True, description="Let the harness run the tests itself before it accepts work.")
    max_features_per_session: Count = Field(
        1, description="Maximum number of features that a session may mark as done. More features cause a rejection."
    )
    regression_check: Switch = Field(True, description="Run the whole test suite before the harness accepts work.")
    isolation: Literal["worktree", "in_place"] = Field(
        "worktree",
        description="Folder for verification. worktree: a new checkout of the commit. in_place: the project folder.",
    )
    links: Annotated[tuple[Folder, ...], Field(strict=False)] = Field(
        (),
        description="Git-ignored folders, such as .venv, that the harness links into the checkout for verification.",
    )
    timeout_minutes: Minutes = Field(30.0, description="Time limit of each verification command in minutes.")
    fix_rounds: CountOrNone = Field(
        3, description="Maximum number of times in a session that the agent may fix rejected work."
    )
    trust: Literal["normal", "fast"] = Field(
        "normal",
        description="normal: the tests must also fail on mutants of the work, and the tested code must give the same "
        "results outside the tests. fast: the harness skips these two checks.",
    )
    built_already: Literal["ask", "accept"] = Field(
        "ask",
        description="Decision about a feature that already exists, in a run with `--until-done`. ask: the harness "
        "asks the user. accept: the harness accepts the feature if the tests fail on older code.",
    )
    report: Inside | None = Field(None, description="JUnit XML file of the test runner, if this runner is not pytest.")


class Features(Section):
    max_verification_steps: Count = Field(
        7, description="Maximum number of verification steps of a feature. More steps cause a warning."
    )
    max_stuck_sessions: Count = Field(
        3, description="Number of unsuccessful sessions on one feature after which the harness asks the user."
    )
    max_starts: Count = Field(200, description="Number of agent starts for one feature after which the user is asked.")
    require_test_file: Switch = Field(True, description="Require that every feature has a test file.")


class GitHub(Section):
    repo: Title | None = Field(
        None, description="GitHub repository (owner/name) for the harness's issues. Default: project.github_repo."
    )
    sync_mode: Literal["mirror", "none"] = Field(
        "mirror", description="mirror: create a GitHub issue for each feature. none: create no GitHub issues."
    )
    sync_on_session_end: Switch = Field(True, description="Update the GitHub issues at the end of each session.")
    create_missing_issues: Switch = Field(True, description="Create a GitHub issue for each feature that has no issue.")
    close_on_verify: Switch = Field(True, description="Close the GitHub issue of a feature once the feature is proven.")
    on_sync_failure: Literal["warn", "fail"] = Field(
        "warn", description="Effect of a failed update of an issue. warn: print a warning. fail: pause the project."
    )


class GitSettings(Section):
    push: Literal["auto", "never"] = Field(
        "auto", description="auto: push accepted commits if the branch has an upstream. never: never push commits."
    )
    on_dirty: Literal["stash", "abort"] = Field(
        "stash", description="Uncommitted changes before a session. stash: stash the changes. abort: start no session."
    )


class Logging(Section):
    level: Literal["critical", "important", "routine", "debug"] = Field(
        "important", description="Lowest level of the events that the harness logs."
    )
    retention_days: Count = Field(90, description="Number of days for which important events are kept.")
    structured_agent_output: Switch = Field(
        True, description="Log the actions that the agent reports in lines with a prefix such as [FILE:READ]."
    )
    require_prefixes: Switch = Field(
        False, description="Reject a session if no line of the agent's output has a prefix such as [FILE:READ]."
    )
    fallback_tracking: Switch = Field(True, description="Log changed files from git if the agent did not report them.")
    warn_on_missing_prefixes: Switch = Field(True, description="Log an event if the agent prints no action prefixes.")


class Paths(Section):
    features: Inside = Field("features.json", description="Path of the feature list.")
    progress: Inside = Field("claude-progress.txt", description="Path of the progress log.")
    state_dir: Folder = Field(".harness", description="Folder for the harness's state. The harness never commits it.")


class FilesystemTool(Section):
    enabled: Switch = Field(True, description="Offer file tools to agents that use the harness's tools.")
    allowed_paths: Texts = Field((".",), description="Paths that the file tools may access.")
    denied_paths: Texts = Field((".harness/", ".git/", "../"), description="Paths that the file tools may not access.")


class ShellTool(Section):
    enabled: Switch = Field(True, description="Offer a shell tool to agents that use the harness's tools.")
    timeout_seconds: Count = Field(300, description="Time limit of one shell command in seconds.")
    denied_commands: Texts = Field(
        ("rm -rf /", "sudo", "> /dev/"),
        description="Commands that the shell tool refuses. This list prevents accidents, but it is not a sandbox.",
    )


class McpServerSettings(Section):
    enabled: Switch = Field(False, description="Start this MCP server for the agent.")
    command: OptionalCommand = Field(None, description="Program of the MCP server.")
    args: Texts = Field((), description="Arguments of the MCP server's program.")
    env: dict[str, str] = Field(default_factory=dict, description="Environment variables for this MCP server only.")
    config: dict[str, object] = Field(default_factory=dict, description="Settings that are passed to the MCP server.")


MCP_SERVERS: dict[str, dict[str, object]] = {
    "puppeteer": {
        "enabled": False,
        "command": "npx",
        "args": ["-y", "@playwright/mcp@latest"],
        "config": {
            "headless": True,
            "viewport": {"width": 1280, "height": 720},
            "screenshots_dir": ".harness/screenshots",
        },
    },
    "postgres": {
        "enabled": False,
        "command": "uvx",
        "args": ["postgres-mcp"],
        "config": {"connection_string": "${DATABASE_URL}", "read_only": True},
    },
}


def _with_known_servers(given: object) -> object:
    """Add the two predefined MCP servers, which are disabled, to the file's servers (UAH-212..216)."""
    if not isinstance(given, Mapping):
        return given
    merged: dict[str, object] = {name: dict(server) for name, server in MCP_SERVERS.items()}
    for name, server in given.items():
        known = MCP_SERVERS.get(str(name), {})
        merged[name] = _over(known, server) if isinstance(server, Mapping) else ({} if server is None else server)
    return merged


def _over(known: Mapping[str, object], server: Mapping[str, object]) -> dict[str, object]:
    usual, own = known.get("config"), server.get("config")
    if "command" in server or "args" in server:
        return {**known, "config": {}, **server}
    if isinstance(usual, Mapping) and isinstance(own, Mapping):
        return {**known, **server, "config": {**usual, **own}}
    return {**known, **server}


class Tools(Section):
    filesystem: FilesystemTool = Field(default_factory=FilesystemTool)
    shell: ShellTool = Field(default_factory=ShellTool)
    mcp_servers: Annotated[
        dict[str, McpServerSettings], BeforeValidator(_with_known_servers), Field(validate_default=True)
    ] = Field(
        default_factory=dict,
        description="MCP servers by name, each with `enabled`, `command`, `args`, `env` and `config`. The harness "
        "replaces `${VARIABLE}` with the variable's value, and refuses unknown keys in `config`. See "
        "[agents](agents.md#mcp-servers).",
    )


class OnTimeout(Section):
    auto_commit: Switch = Field(True, description="Commit unfinished work if the time limit ends the session.")
    message_prefix: str = Field(
        "WIP: Session timeout - ", description="Start of the commit message for unfinished work after the time limit."
    )


class Session(Section):
    timeout_minutes: Minutes = Field(60.0, description="Time limit of a session in minutes.")
    timeout_warning_minutes: Minutes = Field(
        50.0, description="The harness warns the agent about the session's time limit after this number of minutes."
    )
    response_seconds: Count | None = Field(
        None, description="Seconds without output after which the harness retries the turn once. Default: no limit."
    )
    on_timeout: OnTimeout = Field(default_factory=OnTimeout)

    @model_validator(mode="before")
    @classmethod
    def _warning_before_limit(cls, given: object) -> object:
        """Set a missing warning time to 5/6 of a session limit of 50 minutes or less."""
        if not isinstance(given, Mapping) or given.get("timeout_warning_minutes") is not None:
            return given
        limit = given.get("timeout_minutes")
        if isinstance(limit, int | float) and 0 < limit <= 50:
            return {**given, "timeout_warning_minutes": limit * 5 / 6}
        return given


class Checks(Section):
    working_directory: Switch = Field(True, description="Check that the project folder exists and is writable.")
    harness_files: Switch = Field(
        True, description="Check that the harness's files exist and that the scripts are executable."
    )
    git_state: Switch = Field(True, description="Check that HEAD is on a branch and that the work tree is clean.")
    environment: Switch = Field(True, description="Check that environment.init and environment.health_check succeed.")
    baseline_tests: Switch = Field(True, description="Check that all tests in the baseline still pass.")
    budget: Switch = Field(True, description="Check that no budget is used up.")


class OnFailure(Section):
    auto_reset: Switch = Field(True, description="Run environment.reset if environment.init fails.")
    max_reset_attempts: CountOrNone = Field(2, description="Maximum runs of environment.reset before the check fails.")


class Preflight(Section):
    checks: Checks = Field(default_factory=Checks)
    on_failure: OnFailure = Field(default_factory=OnFailure)


class Compatibility(Section):
    on_older_state: Literal["migrate", "abort"] = Field(
        "migrate", description="State from an older harness version. migrate: convert it. abort: end with an error."
    )
    on_newer_state: Literal["abort", "warn"] = Field(
        "abort", description="State from a newer harness version. abort: end with an error. warn: print a warning."
    )
    backup_before_migrate: Switch = Field(True, description="Copy the project's state before a migration.")


class Checkpoints(Section):
    max_age_days: Count = Field(7, description="The harness removes unneeded checkpoints after this number of days.")
    keep_per_feature: Count = Field(
        5, description="For each unfinished feature, the harness always keeps this number of the newest checkpoints."
    )


class Maintenance(Section):
    interval_minutes: Minutes = Field(60.0, description="Minutes between two rounds of checks in maintenance mode.")


def _of_several(name: str) -> Any:
    return Field(parallel_settings.default(name), description=parallel_settings.means(name))


class Parallel(Section):
    workers: Annotated[int, Field(ge=1, le=parallel_settings.MOST_WORKERS)] = _of_several("workers")
    batch_max: Count = _of_several("batch_max")
    test_runs: CountOrNone = _of_several("test_runs")
    window: CountOrNone = _of_several("window")
    mends: CountOrNone = _of_several("mends")
    lend: Switch = _of_several("lend")
    links: Texts = _of_several("links")
    refs: Annotated[str, Field(pattern=f"^{parallel_settings.REFS_PATTERN}$")] = _of_several("refs")
    copy_files: Texts = Field(
        parallel_settings.default("copy"), alias="copy", description=parallel_settings.means("copy")
    )
    union: Texts = _of_several("union")
    setup: OptionalCommand = _of_several("setup")
    setup_key: Texts = _of_several("setup_key")
    setup_minutes: Count = _of_several("setup_minutes")
    teardown: OptionalCommand = _of_several("teardown")
    fresh: Switch = _of_several("fresh")
    ports: CountOrNone = _of_several("ports")
    min_free_mb: CountOrNone = _of_several("min_free_mb")


def _agent(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


class ReviewSection(Section):
    agent: Annotated[dict[str, object] | None, BeforeValidator(_agent)] = Field(
        None, description="Agent that reviews proven work, in the format of the setting `agent`. Default: no review."
    )
    max_minutes: Minutes = Field(10.0, description="Time limit of one review in minutes.")
    max_cost_usd: Dollars = Field(
        1.0, description="Budget of one review in US dollars. The review's cost also counts toward the session's cost."
    )
    on_objection: Literal["tell", "reject"] = Field(
        "tell",
        description="tell: the agent gets the reviewer's objection once, and the harness reports the objection. "
        "reject: the agent gets the objection in each fix round. Then the harness rolls the session back.",
    )


class ReportSection(Section):
    after_run: Switch = Field(
        False, description="Write the report of `harness report` after each `harness run`, and print the report's path."
    )


def _sandbox(value: object) -> object:
    """Convert a plain value such as ``sandbox: off`` to a section that has the value as ``mode``."""
    # YAML can read `off` as False
    return {"mode": value} if isinstance(value, str | bool) else value


def _memory(value: object) -> object:
    bytes_from(value, least=LEAST_MEMORY)
    return str(value or "off")


def _room(value: object) -> object:
    bytes_from(value)
    return str(value or "off")


def _processes(value: object) -> object:
    count_from(value)
    return value or "off"


class SandboxSection(Section):
    mode: Annotated[Literal["auto", "off", "required"], BeforeValidator(lambda given: given or "off")] = Field(
        "auto",
        description="Sandbox for agents and checks. auto: the best available sandbox. off: no sandbox. required: the "
        "harness does not run without a sandbox. The variable HARNESS_SANDBOX overrides this.",
    )
    writable: Texts = Field(
        (), description="Additional absolute paths that agents and checks may change. ~ stands for the home folder."
    )
    network: Literal["auto", "loopback", "open"] = Field(
        "auto",
        description="Network access of checks. loopback: only a separate loopback interface. open: the whole network. "
        "auto: open if environment.health_check is set, otherwise loopback.",
    )

    memory: Annotated[str, BeforeValidator(_memory)] = Field(
        MEMORY,
        description="Memory limit of each agent and each check, with child processes: an amount (`4 GiB`), a share "
        "(`50%`) or off. The harness kills and reports a command that exceeds the limit.",
    )
    processes: Annotated[int | Literal["auto", "off"], BeforeValidator(_processes)] = Field(
        "auto",
        description="Maximum number of processes and threads of each agent and each check: a number, off or auto. "
        "auto means 256 per processor, and at least 4,096.",
    )
    free_disk: Annotated[str, BeforeValidator(_room)] = Field(
        FREE_DISK,
        description="Minimum free space on each disk while an agent or a check runs. The value is an amount or off. "
        "The limit applies only to disks that had this much free space before.",
    )

    def settings(self, *, services: bool = False) -> SandboxSettings:
        """Return the sandbox settings. ``network: auto`` becomes open if ``services`` is true, otherwise loopback."""
        network = self.network if self.network != "auto" else OPEN if services else LOOPBACK
        return SandboxSettings(
            mode=self.mode,
            writable=self.writable,
            network=network,
            memory=bytes_from(self.memory),
            processes=count_from(self.processes),
            free_disk=bytes_from(self.free_disk),
        )


class HarnessFile(Section):
    """Model of the whole ``.harness.yaml``."""

    project: ProjectSection
    environment: Environment = Field(default_factory=Environment)
    testing: Testing = Field(default_factory=Testing)
    costs: Costs = Field(default_factory=Costs)
    models: Models = Field(default_factory=lambda: Models.model_validate({}))
    context: Context = Field(default_factory=Context)
    progress: Progress = Field(default_factory=Progress)
    quality: Quality = Field(default_factory=Quality)
    verification: Verification = Field(default_factory=Verification)
    review: ReviewSection = Field(default_factory=ReviewSection)
    report: ReportSection = Field(default_factory=ReportSection)
    sandbox: Annotated[SandboxSection, BeforeValidator(_sandbox)] = Field(default_factory=SandboxSection)
    features: Features = Field(default_factory=Features)
    github: GitHub = Field(default_factory=GitHub)
    git: GitSettings = Field(default_factory=GitSettings)
    logging: Logging = Field(default_factory=Logging)
    paths: Paths = Field(default_factory=Paths)
    tools: Tools = Field(default_factory=lambda: Tools.model_validate({}))
    session: Session = Field(default_factory=Session)
    preflight: Preflight = Field(default_factory=Preflight)
    compatibility: Compatibility = Field(default_factory=Compatibility)
    checkpoints: Checkpoints = Field(default_factory=Checkpoints)
    maintenance: Maintenance = Field(default_factory=Maintenance)
    parallel: Parallel = Field(default_factory=Parallel)
    agent: Annotated[dict[str, object] | None, BeforeValidator(_agent)] = Field(
        None, description="Agent of this project, and its `fallback`. --agent and HARNESS_AGENT override this setting."
    )
