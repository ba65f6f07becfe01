"""Command ``python -m agent_harness.testing.model_server [--port N] --scripts FILE [--log FILE]``, the model server.

The server runs until interrupted and prints its address on the first line. Exit status: 0 after Ctrl-C or SIGTERM, 2
for an invalid script, 4 for a port in use.
"""

import argparse
import signal
import sys
import threading

from agent_harness.errors import HarnessError, Refused
from agent_harness.testing.model_server import ModelServer


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m agent_harness.testing.model_server",
        description="A model server on this machine that plays scripts (docs/model-server.md).",
    )
    parser.add_argument("--port", type=int, default=0, metavar="N", help="0, the default, takes a free one")
    parser.add_argument("--scripts", required=True, metavar="FILE", help="JSON; read again for each request")
    parser.add_argument("--log", metavar="FILE", help="one JSON object a request is appended, keys masked")
    options = parser.parse_args()
    try:
        server = ModelServer(options.scripts, port=options.port, log=options.log)
    except HarnessError as error:
        sys.stderr.write(f"{error.message}\n{error.hint or ''}\n")
        return error.exit_code
    except (OSError, OverflowError) as error:
        sys.stderr.write(f"port {options.port} cannot be taken: {error}\ntake a free one: --port 0\n")
        return Refused.exit_code
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=server.close).start())
    sys.stdout.write(f"model server on {server.url}\n")
    sys.stdout.flush()
    server.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
