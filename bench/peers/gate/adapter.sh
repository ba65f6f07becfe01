#!/bin/sh
# The agent works on a branch, its work is committed there, and `harness gate` judges the branch.
git switch -q -c work
sh -c "$SELFTEST_AGENT" >/dev/null 2>&1
git add -A && git commit -q -m work
python3 -m agent_harness.cli.main gate --base main --require checked --check "$SELFTEST_PROOF" >"$HOME/gate.log" 2>&1
code=$?
cat "$HOME/gate.log"
sed -n 's/^ACCEPTED: checked (\(.*\))$/checked: \1/p' "$HOME/gate.log"
exit $code
