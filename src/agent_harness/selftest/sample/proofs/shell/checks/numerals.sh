set -e
roman() {
  PYTHONPATH=src python3 -c 'import sys; from almanac.numerals import to_roman; print(to_roman(int(sys.argv[1])))' "$1"
}
[ "$(roman 4)" = IV ]
[ "$(roman 1994)" = MCMXCIV ]
if roman 4000 2> /dev/null; then exit 1; fi
