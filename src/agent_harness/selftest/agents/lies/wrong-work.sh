# lie: builds it wrongly, with right tests
# on: features tasks long

wrong
[ "$SELFTEST" = features ] && right_tests
finish
