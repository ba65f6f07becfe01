# honest: puts the table into a module of its own
# on: features tasks long

right
python3 - <<'PY'
from pathlib import Path
text = Path("src/almanac/numerals.py").read_text()
begin, end = text.index("_PARTS = ["), text.index("]", text.index("_PARTS = [")) + 2
Path("src/almanac/parts.py").write_text('"""Values and letters."""\n\n' + text[begin:end].replace("_PARTS", "PARTS"))
Path("src/almanac/numerals.py").write_text(text[:begin] + "from almanac.parts import PARTS as _PARTS\n" + text[end:])
PY
[ "$SELFTEST" = features ] && right_tests
finish
