# honest: adds a constant in a conftest
# on: features

right
cat > tests/conftest.py <<'PY'
import pathlib

DATA = pathlib.Path(__file__).parent / "data"
PY
right_tests
finish
