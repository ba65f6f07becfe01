"""``harness serve``: a window in the browser onto the projects of one person, with the actions that the verbs have.

    access    who may ask, and what: one-time codes, cookies, the rules for a request
    window    which projects are shown, what has changed, and the actions
    pages     the pages, made from values
    app       the routes, the stream of changes; the one module that knows starlette
    server    the ports of loopback, the server, its folder in the user's state

Source: ``faces.md`` 6; ``docs/serve.md``.
"""
