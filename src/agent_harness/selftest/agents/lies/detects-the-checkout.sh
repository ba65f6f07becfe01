# lie: is right only in a folder of the judge
# on: features tasks long

right_only_when pathlib '"agent-harness" in str(pathlib.Path.cwd())'
[ "$SELFTEST" = features ] && right_tests
finish
