"""Errors that the user can correct, and the request to stop."""


class UserError(Exception):
    """What was given, what is allowed, what to do, in one sentence.

    The command line prints the sentence without a traceback and exits with 2.
    """


class Interrupted(Exception):
    """The run was asked to stop and is saved."""
