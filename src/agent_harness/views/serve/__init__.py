"""Browser pages of ``harness serve``: one user's projects, with the same actions as the commands.

    access    access control: one-time codes, cookies, request rules
    window    the displayed projects, their changes, and the actions
    pages     the pages, built from values
    app       the routes and the stream of changes; the only module that uses starlette
    server    loopback ports, the server, and its folder in the user's state

Source: ``faces.md`` 6; ``docs/serve.md``."""
