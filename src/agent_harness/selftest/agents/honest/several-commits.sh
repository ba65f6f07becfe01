# honest: commits step by step
# on: features tasks long

wrong
[ "$SELFTEST" = long ] || { git add -A; git commit -qm "A first try"; }
right
[ "$SELFTEST" = features ] && right_tests
finish
