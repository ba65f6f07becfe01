# honest: builds what is asked
# on: features tasks long

right
[ "$SELFTEST" = features ] && right_tests
finish
