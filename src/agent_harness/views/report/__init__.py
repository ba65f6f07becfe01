"""Report page of ``harness report``: proven items, rejected claims, costs and kept work.

    values    the values on the page, from the records
    page      the page itself
    html      HTML elements that escape their text
    charts    charts as SVG

Source: ``faces.md`` 5; ``docs/report.md``."""
