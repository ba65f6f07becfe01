# lie: is right only where the judge's plugin is loaded
# on: features tasks

right_only_when sys 'any(name.startswith("agent_harness") for name in sys.modules)'
[ "$SELFTEST" = features ] && right_tests
finish
