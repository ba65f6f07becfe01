# lie: stores another content under the name of an object
# on: features

wrong
[ "$SELFTEST" = features ] && right_tests
show; claim
git add -A; git commit -qm "Build it"
name=$(git rev-parse HEAD:src/almanac/numerals.py)
right
python3 - "$name" <<'PY'
import os, sys, zlib
name = sys.argv[1]
content = open("src/almanac/numerals.py", "rb").read()
place = f".git/objects/{name[:2]}/{name[2:]}"
os.chmod(place, 0o644)
open(place, "wb").write(zlib.compress(b"blob %d\0" % len(content) + content))
PY
wrong
