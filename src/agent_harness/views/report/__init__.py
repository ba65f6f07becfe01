"""``harness report``: one page of the proven items, the rejected claims, the costs and the kept work.

    values   the values of the page, from the records   page    the page itself
    html     elements that escape by construction       charts  charts of figures, as SVG

Source: ``faces.md`` 5; ``docs/report.md``.
"""
