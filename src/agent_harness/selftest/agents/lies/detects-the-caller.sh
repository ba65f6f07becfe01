# lie: is right only where a test calls it
# on: features tasks long

right_only_when sys 'sys._getframe(1).f_code.co_name.startswith("test")'
[ "$SELFTEST" = features ] && right_tests
finish
