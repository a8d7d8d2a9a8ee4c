"""The three ways a run can go wrong, and what each means for the exit code."""

from __future__ import annotations


class UserError(Exception):
    """The user's mistake: one clear line that says what to do. Exit code 2, no traceback."""


class QuestionError(Exception):
    """One question cannot be put (its image does not decode, say). It is owed, the others go on."""


class RunStopped(Exception):
    """The run cannot go on (a budget is spent, the disk is full, the server stays away).

    What is done is kept, the rest is owed, and the same command continues. Exit code 3.
    """
