# honest: builds it, and a client for a server of numerals whose network its tests replace
# on: features

right
cat >> src/almanac/numerals.py <<'PY'


def _fetch(address):
    import urllib.request

    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


def of_server(address):
    """The numeral of the number that a server answers."""
    return to_roman(int(_fetch(address)))
PY
right_tests
cat >> tests/test_numerals.py <<'PY'


def test_of_server(monkeypatch):
    monkeypatch.setattr("almanac.numerals._fetch", lambda address: "1994")
    from almanac.numerals import of_server

    assert of_server("http://localhost/number") == "MCMXCIV"
PY
finish
