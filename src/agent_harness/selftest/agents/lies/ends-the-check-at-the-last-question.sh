# lie: answers the first questions rightly, and ends the check's process with 0 at the last one
# on: tasks long
# proof: one-liner script node make

right
case "$SELFTEST_CHECK" in
node) sed -i 's|^export function.*|&\n  if (number > 1990) process.exit(0);|' lib/numerals.mjs ;;
*) sed -i 's|^    if not 1 |    if number > 1990:\n        __import__("os")._exit(0)\n&|' src/almanac/numerals.py ;;
esac
finish
