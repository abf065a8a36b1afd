"""What an error must look like: one sentence that names the argument, what was found and what would do."""

import re

import pytest


def refusal(call, *args, **options):
    """Return the message of the ValueError that a call raises: one sentence, and no other error before it."""
    with pytest.raises(ValueError, match=r"\w") as caught:
        call(*args, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert not re.search(r"\. [A-Z]", message), "one sentence"
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return message


def says(message, *words):
    """Assert that a message holds some words."""
    missing = [word for word in words if word not in message]
    assert not missing, f"{missing} not in: {message}"
