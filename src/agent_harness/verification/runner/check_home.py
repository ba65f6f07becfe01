"""Environment variables and temporary home folder of a check.
The home folder has a git identity, and links to the user's toolchains and build caches. It contains nothing else that
an agent may have left in the user's home folder. Users who want checks to see their real home folder add it to
``sandbox.writable``. ``CI`` is ``true`` unless the user has set it, so that tools run once and exit."""

import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_harness.kernel.process.sandbox import SandboxSettings

_KEPT = (  # below the home folder: toolchains, and what tools have fetched or built; no settings
    *(".local/bin", ".local/lib", ".local/pipx", ".pyenv", ".rbenv", ".nodenv", ".nvm", ".volta", ".fnm", ".sdkman"),
    *(".asdf", ".asdfrc", ".tool-versions", ".config/mise", ".rustup", ".ghcup", ".opam", ".juliaup", ".swiftly"),
    *(".cargo/bin", ".cargo/registry", ".cargo/git", "go/bin", "go/pkg", "sdk", ".dotnet", ".nuget/packages"),
    *(".gradle/caches", ".gradle/wrapper", ".gradle/jdks", ".gradle/native", ".m2/repository", ".m2/wrapper", ".ivy2"),
    *(".sbt/boot", ".coursier", ".konan", ".android", ".npm/_cacache", ".npm/_npx", ".node-gyp", ".electron-gyp"),
    *(".yarn/berry", ".yarn-cache", ".pnpm-store", ".bun", ".deno", ".bundle/cache", ".gem", ".composer/cache"),
    *(".composer/vendor", ".mix", ".hex", ".stack", ".cabal/bin", ".cabal/packages", ".cabal/store", ".pub-cache"),
    *(".julia", ".ccache", "miniconda3", "anaconda3", "miniforge3", ".conda", ".poetry", ".linuxbrew"),
    *(f".local/share/{name}" for name in ("uv", "pnpm", "virtualenv", "virtualenvs", "mise", "rtx", "fnm", "nvm")),
    *(f".local/share/{name}" for name in ("pypoetry", "pdm", "hatch", "NuGet", "coursier", "gem", "cargo")),
    *(f".cache/{name}" for name in ("go-build", "pip", "uv", "pypoetry", "pdm", "hatch", "pre-commit", "ccache")),
    *(f".cache/{name}" for name in ("ms-playwright", "Cypress", "puppeteer", "electron", "node", "node-gyp", "yarn")),
    *(f".cache/{name}" for name in ("pnpm", "deno", "bazel", "bazelisk", "composer", "coursier", "zig", "sccache")),
    *(f".cache/{name}" for name in ("huggingface", "torch", "golangci-lint", "typescript", "ruby-build", "mise")),
)
_BASES = {  # the variables that move a part of the home, and what it is without them
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
    "CARGO_HOME": ".cargo",
    "GRADLE_USER_HOME": ".gradle",
}
_PARTS = [(name, max((each for each in _BASES.values() if name.startswith(f"{each}/")), default="")) for name in _KEPT]
_SETTINGS = ("NPM_CONFIG_USERCONFIG", "npm_config_userconfig", "NPM_CONFIG_GLOBALCONFIG", "PIP_CONFIG_FILE", "GOENV")
_IDENTITY = "[user]\n\tname = {name}\n\temail = {name}@localhost\n[init]\n\tdefaultBranch = main\n"


def variables_of_check(
    variables: Mapping[str, str],
    folder: str,
    settings: SandboxSettings,
    *,
    inside: str = "",
    shielded: bool = False,
    plain: bool = False,
) -> dict[str, str]:
    """Create a home folder for a check in ``folder``, and return the check's environment variables."""
    found = dict(variables) if plain else {"CI": "true", **variables}
    real = variables.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    if real in map(os.path.expanduser, settings.writable):
        return found
    own = Path(folder, _login())  # no name by which code could tell whose home it is
    seen = f"{inside or folder}/{own.name}"
    _furnish(own, real, _places(variables, real), shielded=shielded)
    found |= {name: f"{seen}/{below}" for name, below in _BASES.items() if name in found}
    for name in _SETTINGS:
        if found.get(name, "").startswith(f"{real}/"):
            del found[name]
    return {**found, "HOME": seen}


def kept_of_home(variables: Mapping[str, str]) -> list[str]:
    """Return the paths in the user's home that a check may read."""
    real = variables.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
    places = _places(variables, real)
    found = [target for _, target in _targets(real, places)]
    return [*found, f"{real}/.gitconfig", f"{places['.config']}/git", f"{places['.cache']}/agent-harness"]


def _targets(real: str, places: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, f"{places[base]}{name[len(base) :]}" if base else f"{real}/{name}") for name, base in _PARTS]


def _places(variables: Mapping[str, str], real: str) -> dict[str, str]:
    return {below: variables.get(name) or f"{real}/{below}" for name, below in _BASES.items()}


def _furnish(own: Path, real: str, places: Mapping[str, str], *, shielded: bool) -> None:
    own.mkdir(mode=0o700)
    for name, target in _targets(real, places):
        if os.path.exists(target):  # noqa: PTH110  most are not there
            link = own / name
            link.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                link.symlink_to(target)
    given = (f"{real}/.gitconfig", f"{places['.config']}/git/config") if shielded else ()
    included = "".join(f'[include]\n\tpath = "{path}"\n' for path in given if '"' not in path and "\n" not in path)
    (own / ".gitconfig").write_text(_IDENTITY.format(name=own.name) + included)


def _login() -> str:
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "user"
    return name if name.isidentifier() else "user"
