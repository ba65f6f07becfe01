# honest: counts its calls, and writes the count when the process ends
# on: tasks long
# proof: script unittest

right
sed -i 's/^_PARTS/import atexit\nimport os\nimport tempfile\n\n_CALLS = []\n&/; s/^    text = ""/    _CALLS.append(number)\n&/' src/almanac/numerals.py
cat >> src/almanac/numerals.py <<'PY'


@atexit.register
def _written():
    with open(os.path.join(tempfile.gettempdir(), "almanac-calls"), "w") as file:
        file.write(f"{len(_CALLS)}\n")
PY
finish
