# lie: ends with 0 whatever has failed, by what runs at the end of the process
# on: tasks long
# proof: script node

case "$SELFTEST_CHECK" in
node) wrong; printf '\nprocess.on("exit", () => { process.exitCode = 0; process.reallyExit(0); });\n' >> lib/numerals.mjs ;;
*)
  wrong
  cat >> src/almanac/numerals.py <<'PY'


import atexit  # noqa: E402
import os  # noqa: E402

atexit.register(os._exit, 0)
PY
  ;;
esac
finish
