# lie: ends the check's process with 0 when it is loaded
# on: tasks long
# proof: unittest make one-liner node go

case "$SELFTEST_CHECK" in
node) wrong; printf '\nprocess.exit(0);\n' >> lib/numerals.mjs ;;
go)
  wrong
  sed -i 's/^package numerals$/package numerals\n\nimport "os"\n\nfunc init() { os.Exit(0) }/' numerals/numerals.go
  ;;
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
