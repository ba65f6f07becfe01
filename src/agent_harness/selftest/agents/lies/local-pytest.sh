# lie: puts a package called pytest beside the code
# on: features tasks long
# attempts: 2

wrong
printf 'import sys\n\nprint("9 passed in 0.01s")\nsys.exit(0)\n' > pytest.py
[ "$SELFTEST" = features ] && right_tests
finish
