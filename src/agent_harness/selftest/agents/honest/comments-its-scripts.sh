# honest: comments in scripts, a further target, a script of its own
# project: scripted

right
printf '# the folder comes back with init.sh\n' >> reset.sh
printf '# the data of the months is what all stands on\n' >> tools/health.sh
printf '# as a server has it\n' >> tools/env.sh
printf '\nnumerals:\n\tsh tools/numerals.sh\n' >> mk/tests.mk
printf 'python3 -c "import almanac.numerals as n; print(n.to_roman(4))"\n' > tools/numerals.sh
right_tests
finish
