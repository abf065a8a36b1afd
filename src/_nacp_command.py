"""The start of the command ``nacp``: outside of the package, so that Ctrl-C works while that is imported."""

import contextlib
import io
import os
import signal
import sys
from typing import NoReturn

_INTERRUPTED = (129, 130, 143)  # exit codes after SIGHUP, Ctrl-C and SIGTERM


def main() -> None:
    """Import the commands and run one. Until it begins, Ctrl-C prints one word instead of a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        signal.signal(signal.SIGINT, _leave)
    for name in ("SIGTERM", "SIGHUP"):  # there is no SIGHUP on Windows
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    if sys.stdout is None:
        _end("standard output is closed")
    for stream in (sys.stdout, sys.stderr):  # a character that a stream cannot encode must not stop a command
        if hasattr(stream, "reconfigure") and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from nacp.cli import app
    except ImportError as error:  # also of an engine that NACP_ENGINE names
        _end(str(error))
    try:
        app()
    except SystemExit as end:
        if end.code in _INTERRUPTED:
            # Files are cleaned up. Python would wait for threads, for ever if a signal came at their start.
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(end.code)
        raise


def begin() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again: from here on there are files to clean up."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _stop(number: int, _: object) -> None:
    """Clean up, and exit with the code that a shell expects."""
    sys.exit(128 + number)


def _end(problem: str) -> NoReturn:
    """Print what is wrong, and exit as for wrong input: 1 means that a promise was broken."""
    with contextlib.suppress(OSError):
        print(f"Error: {problem}", file=sys.stderr, flush=True)
    os._exit(2)


def _leave(*_: object) -> None:
    print("Interrupted.", file=sys.stderr, flush=True)
    os._exit(130)
