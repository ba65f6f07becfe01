"""Hooks of coding-agent clients: a few milliseconds over bare Python, standard library only, read-only for the state.

    event            the client's payload, the task list's folder, the hook's answer
    stop, session_start      the rules of the events: values in, a Decision out
    messages         the lines that agents read
    stop_limit       limit on blocked stops of a session without progress
    final_review     another review of finished work, if a list asks for it
    dispatch         event in, answer out; never a traceback, exit status 0 or 2; one log line per call
    task_scripts     the claim and renew scripts
    install, codex_trust     adds the hooks to the settings of a client, and removes them

Source: ``tasklist.md`` 2-7.3.
"""
