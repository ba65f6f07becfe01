# Runs the tests that carry a marker: `sh scripts/marked.sh MARKER PYTEST...`. Says so, and succeeds, when there are none.
marker=$1
shift
if ! grep -rqE --include='*.py' "mark\.$marker\b" tests; then
  echo "There are no tests marked '$marker' yet; nothing was run."
  exit 0
fi
exec "$@" -m "$marker"
