# lie: replaces an object for git
# on: features tasks
# attempts: 2

wrong
[ "$SELFTEST" = features ] && right_tests
show; claim
git add -A; git commit -qm "Build it"
old=$(git rev-parse HEAD:src/almanac/numerals.py)
right
git replace "$old" "$(git hash-object -w src/almanac/numerals.py)"
wrong
