"""``harness completion``: a shell script that completes commands and options without starting Python.

Only values that depend on the current project (ids, options of a question, agents) come from a call of ``harness
__complete``. ``faces.md`` F-HELP-3."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

from agent_harness.cli.machine.words import FILES, CommandWords, walk
from agent_harness.cli.terminal import show
from agent_harness.errors import Refused

_BASH = """\
_harness_complete() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path=${COMP_WORDS[0]##*/} word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " $(_harness_words "$path" verbs) " in *" $word "*) path="$path $word" ;; esac
  done
  local found; found=$(_harness_words "$path" "$prev")
  [[ $prev == -* && -n $found ]] || found="$(_harness_words "$path" verbs) $(_harness_words "$path" place)"
  [[ $cur == -* ]] && found=$(_harness_words "$path" options)
  COMPREPLY=()
  case $found in *:files*) return ;; esac
  while IFS= read -r word; do  # not by compgen -W, which runs what stands in the words
    [[ $word != "$cur"* ]] || COMPREPLY+=("$(printf %q "$word")")
  done < <(_harness_asked "$found")
}
_harness_asked() {
  local word
  for word in $1; do
    case $word in :*) harness __complete "${word#:}" 2>/dev/null ;; *) printf '%s\\n' "$word" ;; esac
  done
}
complete -o default -F _harness_complete harness lth
"""

_ZSH = """\
_harness_complete() {
  local cur=${words[CURRENT]} prev=${words[CURRENT-1]} path_=${words[1]:t} word found
  for word in ${words[2,CURRENT-1]}; do
    case " $(_harness_words "$path_" verbs) " in *" $word "*) path_="$path_ $word" ;; esac
  done
  found=$(_harness_words "$path_" "$prev")
  [[ $prev == -* && -n $found ]] || found="$(_harness_words "$path_" verbs) $(_harness_words "$path_" place)"
  [[ $cur == -* ]] && found=$(_harness_words "$path_" options)
  case $found in *:files*) _files; return ;; esac
  local -a all
  for word in ${=found}; do
    case $word in :*) all+=(${(f)"$(harness __complete ${word#:} 2>/dev/null)"}) ;; *) all+=($word) ;; esac
  done
  if (( $#all )); then compadd -a all; else _files; fi
}
if [[ $funcstack[1] == _harness ]]; then  # zsh has loaded this file for the first TAB, and waits for its answer
  _harness_complete
  _harness() { _harness_complete }
else
  compdef _harness_complete harness lth
fi
"""

_FISH = """\
function __harness_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l path (basename $words[1])
    for word in $words[2..-1]
        contains -- $word (string split ' ' (__harness_words $path verbs)); and set path "$path $word"
    end
    set -l found
    string match -q -- '-*' $words[-1]; and set found (__harness_words $path $words[-1])
    test -n "$found"; or set found (__harness_words $path verbs) (__harness_words $path place)
    string match -q -- '-*' $cur; and set found (__harness_words $path options)
    string length -q -- $found; or __fish_complete_path $cur
    for word in (string split ' ' -- $found)
        switch $word
            case ':files'
                __fish_complete_path $cur
            case ':*'
                harness __complete (string sub -s 2 $word) 2>/dev/null
            case '*'
                echo $word
        end
    end
end
complete -c harness -f -a '(__harness_complete)'
complete -c lth -f -a '(__harness_complete)'
"""


def script(shell: str) -> str:
    rows = [row for path, found in walk().items() for row in _rows(path, found)]
    if shell == "fish":
        cases = [f"        case {shlex.quote(key)}\n            echo {shlex.quote(words)}" for key, words in rows]
        table = "\n".join(
            ["function __harness_words", '    switch "$argv[1]|$argv[2]"', *cases, "    end", "end", _FISH]
        )
        return f"# harness completion fish\n{table}"
    cases = [f"    {shlex.quote(key)}) echo {shlex.quote(words)} ;;" for key, words in rows]
    head = "#compdef harness lth\n" if shell == "zsh" else ""
    table = "\n".join(
        ["_harness_words() {", '  case "$1|$2" in', *cases, "  esac", "}", _ZSH if shell == "zsh" else _BASH]
    )
    return f"{head}# harness completion {shell}\n{table}"


def _rows(path: str, found: CommandWords) -> list[tuple[str, str]]:
    rows = [(f"{path}|verbs", " ".join(found.verbs)), (f"{path}|options", " ".join(found.options))]
    rows.append((f"{path}|place", _shown(found.place)))
    unsaid = (
        (None,) if found.verbs or found.place not in ((), FILES) else (None, FILES)
    )  # files come by themselves there
    rows += [(f"{path}|{word}", _shown(value)) for word, value in found.options.items() if value not in unsaid]
    return [(key, words) for key, words in rows if words]


def _shown(value: tuple[str, ...] | str | None) -> str:
    return f":{value}" if isinstance(value, str) else " ".join(value or ())


def _place_of(shell: str) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": Path(os.environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions/harness",
        "zsh": data / "zsh/site-functions/_harness",
        "fish": config / "fish/completions/harness.fish",
    }[shell]


@click.command(
    epilog="""\b
Examples:
  harness completion bash --install
  source <(harness completion bash)          only for this shell""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--install", is_flag=True, help="Write the script into the shell's completion folder.")
def completion(shell: str, install: bool) -> int:
    """Print a shell script that completes commands, options and ids.

    --install writes the script into the shell's completion folder and changes no start-up file. bash reads that folder
    if the package bash-completion is installed, zsh if its fpath has the folder. The command prints what to add.
    """
    text = script(shell)
    if not install:
        sys.stdout.write(text)  # for a shell, not for a person
        return 0
    from agent_harness.kernel import files

    path = _place_of(shell)
    second = {"bash": path.with_name("lth"), "fish": path.with_name("lth.fish")}.get(shell)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.replace(path, text.encode(), follow=True)
        if second is not None:
            files.replace(second, text.encode(), follow=True)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}", hint=f"harness completion {shell} > harness.{shell}") from None
    show(f"Wrote {path}. A new {shell} loads the file when it first completes a command.")
    if shell == "bash":
        again = shlex.quote(f"source {shlex.quote(str(path))}")
        show(f"The script needs the package bash-completion. Without the package, run: echo {again} >> ~/.bashrc")
    if shell == "zsh":
        show(
            f"zsh reads that folder if .zshrc has this line before compinit: fpath=({shlex.quote(str(path.parent))} "
            "$fpath)"
        )
    return 0


__all__ = ["completion", "script"]
