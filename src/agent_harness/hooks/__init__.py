"""What coding-agent clients call: a few milliseconds over bare Python, standard library only, read-only for the state.

    event            what the client says, and where the task list is
    decision         what a hook answers, as the bytes and the exit status that clients expect
    stop, session_start, subagent_stop, teammate_idle      one rule each: values in, a Decision out
    messages         the lines that agents read
    stop_limit       how often a session may be kept going without progress
    final_review     another look at finished work, where a list asks for it
    dispatch         event in, answer out; never a traceback, exit status 0 or 2
    call_log         one line per call, for whoever wants to look on
    task_scripts     the claim and renew scripts
    install, clients, codex_trust, jsonedit      writes the hooks into the settings of a client, takes them out

Source: ``tasklist.md`` 2-7.3.
"""
