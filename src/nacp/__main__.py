"""``python -m nacp``: the same as the command ``nacp``."""

from _nacp_command import main

if __name__ == "__main__":  # workers import the main module, too
    main()
