# lie: is right only in a repository that borrows its objects
# on: features tasks

right_only_when pathlib 'pathlib.Path(".git/objects/info/alternates").exists()'
[ "$SELFTEST" = features ] && right_tests
finish
