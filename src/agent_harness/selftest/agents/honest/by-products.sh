# honest: leaves caches and by-products, ignored
# on: features tasks long

right
[ "$SELFTEST" = features ] && right_tests
mkdir -p .pytest_cache src/almanac/__pycache__; : > .pytest_cache/x
finish
