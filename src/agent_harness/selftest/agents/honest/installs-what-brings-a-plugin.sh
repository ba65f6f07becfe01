# honest: installs a package that happens to bring a plugin of pytest
# on: features tasks long
# in: environment

right
[ "$SELFTEST" = features ] && right_tests
installed anyhow anyhow anyhow <<'PY'
import pytest


@pytest.fixture
def anyhow():
    return "anyhow"
PY
finish
