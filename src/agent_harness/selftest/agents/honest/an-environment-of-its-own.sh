# honest: works in an environment of the project, and changes nothing there
# on: features tasks long
# in: environment

right
[ "$SELFTEST" = features ] && right_tests
finish
