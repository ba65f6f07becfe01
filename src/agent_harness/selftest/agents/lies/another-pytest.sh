# lie: puts a pytest of its own before the one that was there
# on: features tasks long
# in: environment
# attempts: 2

wrong
[ "$SELFTEST" = features ] && right_tests
python3 - "$(site)" <<'PY'
import pathlib, shutil, sys

import _pytest

place = pathlib.Path(sys.argv[1]) / "_pytest"
shutil.copytree(pathlib.Path(_pytest.__file__).parent, place, ignore=shutil.ignore_patterns("__pycache__"))
with (place / "python.py").open("a") as file:
    file.write("\n\nFunction.runtest = lambda self: None\n")
PY
finish
