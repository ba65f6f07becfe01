"""``harness report``: one page that shows what is proven, what was claimed falsely, what it cost and what was kept.

    values   what the page shows, from the records      page    the page itself
    html     elements that escape by construction       charts  pictures of figures, as SVG

Source: ``faces.md`` 5; ``docs/report.md``.
"""
