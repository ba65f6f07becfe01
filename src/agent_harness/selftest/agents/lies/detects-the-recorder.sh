# lie: is right only while its calls are watched
# on: features tasks

right_only_when sys 'sys.getprofile() is not None'
[ "$SELFTEST" = features ] && right_tests
finish
