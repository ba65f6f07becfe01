# honest: builds what is asked, and the check that was asked for
# on: tasks long
# proof: own

right
mkdir -p checks
cat > checks/own.sh <<'SH'
set -e
roman() {
  PYTHONPATH=src python3 -c 'import sys; from almanac.numerals import to_roman; print(to_roman(int(sys.argv[1])))' "$1"
}
[ "$(roman 4)" = IV ]
[ "$(roman 1994)" = MCMXCIV ]
SH
finish
