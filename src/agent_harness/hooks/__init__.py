"""What coding-agent clients call: a few milliseconds over bare Python, standard library only, read-only for the state.

    event            what the client says, where the task list is, what a hook answers
    stop, session_start      the rules of the events: values in, a Decision out
    messages         the lines that agents read
    stop_limit       how often a session may be kept going without progress
    final_review     another look at finished work, where a list asks for it
    dispatch         event in, answer out; never a traceback, exit status 0 or 2; one line per call for a log
    task_scripts     the claim and renew scripts
    install, codex_trust     writes the hooks into the settings of a client, takes them out

Source: ``tasklist.md`` 2-7.3.
"""
