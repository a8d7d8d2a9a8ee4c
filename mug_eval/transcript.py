"""The public talk as text that can be had without its oldest round, for a model whose context is too small for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from mug_eval.chat import Message

LEFT_OUT: Final = "(Earlier rounds are left out here, since they did not fit.)"
"""Stands wherever rounds were left out, so that nobody takes the rest for all that was said."""

Piece = tuple[int | None, str]
"""A stretch of text and the round in which it was said; None for what belongs to no round and always stays."""


class Transcript(str):
    """Text made of pieces, a blank line between two of them, that remembers which round each piece belongs to.

    It is a string, and the same one as without this knowledge: what is sent, and what the journal knows a call by, depends on the words
    alone. Added to other text it becomes plain text, of which nothing can be left out.

    Args:
        pieces: in the order shown; rounds are numbered in the order in which they were played.
    """

    __slots__ = ("pieces",)
    pieces: tuple[Piece, ...]

    def __new__(cls, pieces: Iterable[Piece]) -> Transcript:
        """Join the pieces."""
        kept = tuple(pieces)
        self = super().__new__(cls, "\n\n".join(text for _, text in kept))
        self.pieces = kept
        return self

    def without_oldest_round(self) -> Transcript | None:
        """The same text with its oldest round replaced by :data:`LEFT_OUT`; None if only the newest is left.

        The newest round always stays: a reply to talk of which nothing is shown would be another method's.
        """
        rounds = {number for number, _ in self.pieces if number is not None}
        if len(rounds) < 2:
            return None
        oldest, note = min(rounds), (None, LEFT_OUT)
        shorter: list[Piece] = []
        for piece in self.pieces:
            if piece[0] != oldest:
                shorter.append(piece)
            elif not shorter or shorter[-1] != note:
                shorter.append(note)
        return Transcript(shorter)


def pieces_of(sections: Iterable[str]) -> list[Piece]:
    """The pieces of several sections in order; plain text is one piece that stays."""
    return [piece for section in sections for piece in (section.pieces if isinstance(section, Transcript) else ((None, section),))]


def without_oldest_round(messages: Sequence[Message]) -> tuple[Message, ...] | None:
    """The conversation without the oldest round of its first transcript that has one to spare; None if none has."""
    for i, message in enumerate(messages):
        for j, part in enumerate(message.parts):
            shorter = part.without_oldest_round() if isinstance(part, Transcript) else None
            if shorter is not None:
                parts = (*message.parts[:j], shorter, *message.parts[j + 1 :])
                return (*messages[:i], replace(message, parts=parts), *messages[i + 1 :])
    return None
