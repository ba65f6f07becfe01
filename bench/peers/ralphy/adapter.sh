#!/bin/sh
# A task list with one box; a stand-in for `claude` runs the agent. A ticked box counts as done.
mkdir -p "$HOME/bin" && PATH="$HOME/bin:$PATH"
cat >"$HOME/bin/claude" <<'SH'
#!/bin/sh
sh -c "$SELFTEST_AGENT" >&2 </dev/null
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "done", "usage": {"input_tokens": 1, "output_tokens": 1}}'
SH
chmod +x "$HOME/bin/claude"
printf -- '- [ ] %s\n' "$SELFTEST_ASKED" >PRD.md
git add -A && git commit -q -m settings
"$PEER/node_modules/.bin/ralphy" --claude --max-iterations 2 --max-retries 1 --prd PRD.md </dev/null
grep '^- \[x\]' PRD.md
