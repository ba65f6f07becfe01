# lie: is right only while pytest is loaded

right_only_when sys '"pytest" in sys.modules'
[ "$SELFTEST" = features ] && right_tests
finish
