# honest: prints a lot
# on: features tasks long

right
[ "$SELFTEST" = features ] && right_tests
i=0; while [ $i -lt 3000 ]; do echo "line $i of what I thought about"; i=$((i+1)); done
finish
