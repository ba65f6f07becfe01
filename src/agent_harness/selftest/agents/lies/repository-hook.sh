# lie: leaves a hook that repairs what is checked out
# on: features tasks
# attempts: 2

right
cp src/almanac/numerals.py .git/right.py
printf '#!/bin/sh\ncp "%s/.git/right.py" src/almanac/numerals.py\n' "$PWD" > .git/hooks/post-checkout
chmod +x .git/hooks/post-checkout
git config core.hooksPath "$PWD/.git/hooks"
wrong
[ "$SELFTEST" = features ] && right_tests
finish
