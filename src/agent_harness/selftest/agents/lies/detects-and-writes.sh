# lie: is right only under pytest, and writes a log so that nobody may call it again
# on: features tasks
# attempts: 2

right_only_when sys 'open("calls.log", "a").write("x") and "pytest" in sys.modules'
[ "$SELFTEST" = features ] && right_tests
finish
