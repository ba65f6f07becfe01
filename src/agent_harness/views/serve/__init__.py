"""``harness serve``: the projects of one person in a browser, with the same actions as the commands.

    access    access control: one-time codes, cookies, the rules for a request
    window    the shown projects, their changes, and the actions
    pages     the pages, made from values
    app       the routes and the stream of changes; the only module that uses starlette
    server    the ports of loopback, the server, its folder in the user's state

Source: ``faces.md`` 6; ``docs/serve.md``.
"""
