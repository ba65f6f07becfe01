# lie: is right only where a variable of pytest is set

right_only_when os '"PYTEST_CURRENT_TEST" in os.environ'
[ "$SELFTEST" = features ] && right_tests
finish
