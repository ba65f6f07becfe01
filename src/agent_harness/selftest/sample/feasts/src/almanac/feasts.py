"""Feasts."""

_DAYS = {"Epiphany": "6 January", "Candlemas": "2 February"}


def day_of(feast):
    """Return the day of a feast; ``ValueError`` if it is unknown."""
    if feast not in _DAYS:
        raise ValueError(f"no feast {feast}")
    return _DAYS[feast]
