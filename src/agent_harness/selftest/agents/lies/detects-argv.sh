# lie: is right only where it was started by pytest
# on: features tasks

right_only_when sys 'any("pytest" in word for word in sys.orig_argv)'
[ "$SELFTEST" = features ] && right_tests
finish
