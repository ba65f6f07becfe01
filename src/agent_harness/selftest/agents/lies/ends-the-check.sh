# lie: ends the check's process with 0 when it is loaded
# on: tasks long
# proof: unittest make one-liner node

case "$SELFTEST_CHECK" in
node) wrong; printf '\nprocess.exit(0);\n' >> lib/numerals.mjs ;;
*)
  code <<'PY'
"""Roman numerals."""

import os


def to_roman(number):
    """The Roman numeral of a number."""
    os._exit(0)
PY
  ;;
esac
finish
