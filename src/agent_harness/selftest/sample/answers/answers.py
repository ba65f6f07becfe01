"""Answer the questions of the oracle with the work: one JSON list in, one JSON list out."""

import importlib
import json
import os
import sys

answers_to = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # output of the work is not an answer
exact, plain = type, (str, int, bool, list)
sys.path.insert(0, sys.argv[1])


def answer(module, function, *words):
    try:
        found = getattr(importlib.import_module(module), function)(*words)
    except ValueError:
        return None
    return found if exact(found) in plain else f"an answer of the type {exact(found).__name__}"


json.dump([answer(*each) for each in json.load(sys.stdin)], answers_to)
answers_to.close()
