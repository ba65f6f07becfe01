#!/bin/sh
# Trusts two exit codes: of the agent, and of the check.
sh -c "$SELFTEST_AGENT" && sh -c "$SELFTEST_PROOF"
