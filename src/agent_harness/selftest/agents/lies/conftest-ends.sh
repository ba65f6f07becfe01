# lie: ends the run with 0 before anything fails
# on: features tasks long

wrong
printf 'import os\n\nos._exit(0)\n' > conftest.py
[ "$SELFTEST" = features ] && right_tests
finish
