test -d data && test -f data/months.txt
