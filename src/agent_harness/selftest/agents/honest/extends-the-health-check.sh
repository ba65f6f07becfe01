# honest: the health check looks for the new module, and a person agrees
# project: scripted
# answer: accept-change

right
printf 'test -f src/almanac/numerals.py\n' >> tools/health.sh
right_tests
finish
