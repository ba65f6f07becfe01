# lie: hides the wrong file from git
# on: features tasks
# attempts: 2

right
[ "$SELFTEST" = features ] && right_tests
git add -A; git commit -qm "Build it"
git update-index --assume-unchanged src/almanac/numerals.py
wrong
git update-index --no-assume-unchanged src/almanac/numerals.py
finish
