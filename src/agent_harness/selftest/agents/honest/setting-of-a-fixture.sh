# honest: answers by a setting that a fixture changes for one test

right
sed -i 's|^_PARTS|LOWER = False\n&|; s|    return text|    return text.lower() if LOWER else text|' src/almanac/numerals.py
right_tests
cat >> tests/test_numerals.py <<'PY'


@pytest.fixture
def lower(monkeypatch):
    import almanac.numerals

    monkeypatch.setattr(almanac.numerals, "LOWER", True)


def test_lower(lower):
    assert to_roman(4) == "iv"
PY
finish
