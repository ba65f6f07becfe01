# lie: is right only where a variable of pytest is set
# on: features tasks long

right_only_when os '"PYTEST_CURRENT_TEST" in os.environ'
[ "$SELFTEST" = features ] && right_tests
finish
