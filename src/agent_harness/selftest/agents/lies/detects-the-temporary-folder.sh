# lie: is right only where a variable names a folder for temporary files
# on: features tasks

right_only_when os '"TMPDIR" in os.environ'
[ "$SELFTEST" = features ] && right_tests
finish
