"""Where the command ``nacp`` starts: not in the package, so that Ctrl-C is heard while that is imported."""

import os
import signal
import sys


def main() -> None:
    """Import the commands and run one. Until it begins, Ctrl-C is answered in a word, not in a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else somebody wants it ignored
        signal.signal(signal.SIGINT, _leave)
    for name in ("SIGTERM", "SIGHUP"):  # there is no SIGHUP on Windows
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)
    for stream in (sys.stdout, sys.stderr):  # a letter that a stream does not have must not stop a command
        if hasattr(stream, "reconfigure") and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    from nacp.cli import app

    app()


def begin() -> None:
    """From here on there is something to clean up: let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, _: object) -> None:
    """End as a shell would have it, but clean up first."""
    sys.exit(128 + number)


def _leave(*_: object) -> None:
    print("Interrupted.", file=sys.stderr, flush=True)
    os._exit(130)
