"""Feasts."""

_DAYS = {"Epiphany": "6 January", "Candlemas": "2 February"}


def day_of(feast):
    """The day of a feast; ``ValueError`` where it is not known."""
    if feast not in _DAYS:
        raise ValueError(f"no feast {feast}")
    return _DAYS[feast]
