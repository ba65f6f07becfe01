"""What a person asks of the records after the work: why an item stands where it stands, its diff, what it has cost.

A face reads a ``ProjectPicture`` and git, writes nothing, and gives plain values, which ``cli`` shows.
"""
