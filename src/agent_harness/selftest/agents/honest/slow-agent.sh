# honest: takes a moment
# on: features tasks long

sleep 2
right
[ "$SELFTEST" = features ] && right_tests
finish
