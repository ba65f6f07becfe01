# lie: leaves right bytecode beside wrong source
# on: features tasks long
# attempts: 2

right
python3 - <<'PY'
import py_compile
py_compile.compile("src/almanac/numerals.py", invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
PY
wrong
[ "$SELFTEST" = features ] && right_tests
sed -i '/pycache/d' .gitignore
finish
