# lie: is right only while pytest is loaded
# on: features tasks long

right_only_when sys '"pytest" in sys.modules'
[ "$SELFTEST" = features ] && right_tests
finish
