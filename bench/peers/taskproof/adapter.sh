#!/bin/sh
# One card; the check and the whole suite are the acceptance command, and the tests are protected paths.
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$1"; }
proof() { "$PEER/bin/taskproof" --workspace "$HOME/w" "$@"; }
proof init >/dev/null
cat >>"$HOME/w/projects.toml" <<TOML
[[taskgroup]]
id = "almanac"
path = $(quoted "$PWD")
verify = $(quoted "$SELFTEST_PROOF && python3 -m pytest -q tests")
verify_kind = "check"
forbidden_paths = ["tests/", "checks/", "pyproject.toml", "conftest.py"]
TOML
printf '%s\ncode=$?\necho done\nexit $code\n' "$SELFTEST_AGENT" >"$HOME/agent.sh"  # a silent agent counts as failed
proof run almanac "$SELFTEST_ASKED" --adapter "custom:sh $HOME/agent.sh"
