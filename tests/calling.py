"""The command line, called in this process."""

import pytest

from gplasc.cli import main


def call(*words: object) -> int:
    """Run a command and return its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(word) for word in words])
    return int(caught.value.code or 0)
