# honest: remembers its answers
# on: features tasks long

right
sed -i 's/^def to_roman/@functools.cache\ndef to_roman/; s/^_PARTS/import functools\n\n_PARTS/' src/almanac/numerals.py
[ "$SELFTEST" = features ] && right_tests
finish
