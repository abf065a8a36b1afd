"""The command ``nacp``: its commands, how it speaks, and its files."""

from nacp.cli.main import app

__all__ = ["app"]
