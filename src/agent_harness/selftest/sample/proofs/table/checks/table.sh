set -e
cut -f1 data/numerals.tsv | PYTHONPATH=src python3 -c '
import sys
from almanac.numerals import to_roman
for number in map(int, sys.stdin):
    print(number, to_roman(number), sep="\t")
' > build-table.tsv
awk -F '\t' 'NR == FNR { want[$1] = $2; next } want[$1] != $2 { bad = 1 } END { exit bad }' data/numerals.tsv build-table.tsv
rm build-table.tsv
