#!/bin/sh
# `wring run` with two gates, both of which must have failed before the work (`prove: true`).
quoted() { python3 -c 'import json, sys; print(json.dumps(sys.argv[1]))' "$1"; }
cat >.wringer.yaml <<YAML
version: 1
gates:
  - id: proof
    run: $(quoted "$SELFTEST_PROOF")
  - id: suite
    run: "python3 -m pytest -q tests"
run:
  worker: $(quoted "$SELFTEST_AGENT # {brief}")
  prove: true
  max_iterations: 2
YAML
printf '.wringer/\n' >>.git/info/exclude
git add -A && git commit -q -m settings
"$PEER/bin/wring" run --max-iterations 2 --worker-timeout 120
