# honest: is a program as well, which names itself by its arguments and its environment
# on: tasks long
# proof: script

right
cat >> src/almanac/numerals.py <<'PY'


def main():
    """Print the numeral of a number."""
    import os
    import sys

    words = sys.argv[1:]
    text = to_roman(int(words[0])) if words else f"usage: {os.path.basename(sys.argv[0])} NUMBER"
    print(text if os.environ.get("MAKELEVEL", "0") == "0" else f"  {text}")
PY
finish
