"""Hooks for coding-agent clients. They are fast, use only the standard library, and never change the task list's state.

    event                    the client's payload, the task list's folder, the hook's answer
    stop, session_start      the rules for the events; each rule maps values to a Decision
    messages                 texts for agents
    stop_limit               limit on blocked stops of a session without progress
    final_review             a further review of finished work, if a list asks for it
    dispatch                 handles an event: never a traceback, exit status 0 or 2, one log line per call
    task_scripts             the claim and renew scripts
    install, codex_trust     adding the hooks to a client's settings, and removing them

Source: ``tasklist.md`` 2-7.3.
"""
