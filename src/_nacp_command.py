"""Where the command ``nacp`` starts: not in the package, so that Ctrl-C is heard while that is imported."""

import os
import signal
import sys


def main() -> None:
    """Import the commands and run one. Until it begins, Ctrl-C is answered in a word, not in a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it ignored
        signal.signal(signal.SIGINT, _leave)
    from nacp.cli import app

    app()


def begin() -> None:
    """From here on there is something to clean up: let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    print("Interrupted.", file=sys.stderr, flush=True)
    os._exit(130)
