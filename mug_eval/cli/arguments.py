"""An argument parser whose mistakes are one line that names the nearest option, and that never repeats a key."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from mug_eval.errors import UserError
from mug_eval.names import nearest


class Parser(argparse.ArgumentParser):
    """Argparse with the house's way of failing."""

    def __init__(self, prog: str, usage: str, description: str, epilog: str = "") -> None:
        super().__init__(
            prog=prog,
            usage=f"{prog} {usage}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage.

        Raises:
            UserError: always.
        """
        raise UserError(f"{message} ({self.prog} --help lists the options)")

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments.

        Raises:
            UserError: an unknown option (the nearest are named), a missing or a wrong value, a key on the command line.
        """
        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        for argument in argv:
            name = argument.partition("=")[0]
            secret = name.startswith("--") and ("key" in name.lower() or "token" in name.lower())
            if secret and not nearest(name, options, alike=0.8):  # else it is one of ours, or a slip of the pen
                raise UserError(
                    f"{name} is not an option: a key on the command line can be read by others. Put it into the environment "
                    "instead, OPENAI_API_KEY or the variable that mug-eval list names for the backbone"
                )
        arguments, rest = self.parse_known_args(argv)
        for argument in rest:
            name = argument.partition("=")[0]
            if name.startswith("-"):
                close = nearest(name, options)
                hint = f"; did you mean {' or '.join(close)}?" if close else ""
                # The value is not repeated: it may be a secret.
                raise UserError(f"unknown option {name}{hint} ({self.prog} --help lists the options)")
        if rest:
            raise UserError(f"unexpected argument {rest[0]!r} ({self.prog} --help lists the options)")
        return arguments


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """An argument type: a whole number not below ``least``, nor above ``most``."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is too small: at least {least}")
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"{value} is too large: at most {most}")
        return value

    return read


def seconds(text: str) -> float:
    """An argument type: a duration in seconds, more than 0."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be more than 0 seconds")
    return value
