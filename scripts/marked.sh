# Runs the tests that carry a marker: `sh scripts/marked.sh MARKER PYTEST...`. Says so, and succeeds, when there are none.
# Only the files that name the marker are read, but for scenarios, which are marked from outside as well.
marker=$1
shift
files=$(grep -rlE --include='test_*.py' "mark\.$marker\b" tests)
if [ -z "$files" ]; then
  echo "There are no tests marked '$marker' yet; nothing was run."
  exit 0
fi
[ "$marker" != scenario ] || exec "$@" -m "scenario and not exhaustive"
exec "$@" -m "$marker" $files
