# A worker that needs three starts: it writes the first half of a report, meets a rate limit, and comes back for the rest.
# The prompt of the harness is on stdin; what is done already is on disk.
report=artifacts/report.txt
if [ ! -e "$report" ]; then
  echo 'Part one: the checkpoint says where to go on.' > "$report"
  echo 'wrote part one'
elif [ ! -e artifacts/limited ]; then
  touch artifacts/limited
  echo 'HTTP 429 Too Many Requests' >&2
  echo 'Retry-After: 3' >&2
  exit 1
elif ! grep -q 'Part two' "$report"; then
  echo 'Part two: nothing of part one was done again.' >> "$report"
  echo 'wrote part two'
else
  echo 'the report is complete'
fi
