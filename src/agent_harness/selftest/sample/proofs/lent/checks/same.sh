set -e
roman() {
  PYTHONPATH=src python3 -c 'import sys; from almanac.numerals import to_roman; print(to_roman(int(sys.argv[1])))' "$1"
}
sh vendor/bin/same "$(roman 4)" IV
sh vendor/bin/same "$(roman 1994)" MCMXCIV
