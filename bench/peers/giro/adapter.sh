#!/bin/sh
# One spec with one issue. The check and the whole suite are gates; a stand-in for `claude` runs the agent.
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$1"; }
giro() { "$PEER/bin/giro" "$@"; }
mkdir -p "$HOME/bin" && PATH="$HOME/bin:$PATH"
cat >"$HOME/bin/claude" <<'SH'
#!/bin/sh
cat >/dev/null
sh -c "$SELFTEST_AGENT" >&2
echo '{"is_error": false, "result": "{\"outcome\": \"completed\", \"summary\": \"done\"}"}'
SH
chmod +x "$HOME/bin/claude"
cat >giro.toml <<TOML
[verify]
gates = [
  { name = "proof", type = "command", run = $(quoted "$SELFTEST_PROOF") },
  { name = "suite", type = "command", run = "python3 -m pytest -q tests" },
]
[validate]
gates = [{ name = "proof", type = "command", run = $(quoted "$SELFTEST_PROOF") }]
[runner.roster]
worker = { driver = "claude" }
[budget]
issue_attempts = 2
TOML
giro new spec numerals && giro new issue numerals Build || exit
sed -i 's/^state: draft/state: active/' docs/specs/numerals/SPEC.md
git add -A && git commit -q -m settings
giro implement numerals && git merge -q giro/numerals
