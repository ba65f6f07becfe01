# honest: writes about it in the README
# on: features tasks long

right
printf "\nto_roman(4) is IV.\n" >> README.md
[ "$SELFTEST" = features ] && right_tests
finish
