"""A conversation as the bytes of an OpenAI chat request. Each picture becomes base64 once, not once a call."""

from __future__ import annotations

import base64
import json
from collections import OrderedDict
from collections.abc import Sequence

from mug_eval.chat import ImageRef, Message

EMPTY_TURN = "(no words)"
"""Sent for a turn without words and pictures, which servers refuse or chat templates choke on."""


class PictureCache:
    """Pictures as JSON content parts with data URIs, by hash, the least used dropped.

    Args:
        limit: most bytes held.
    """

    def __init__(self, limit: int = 64 * 2**20) -> None:
        self._limit = limit
        self._size = 0
        self._parts: OrderedDict[str, bytes] = OrderedDict()

    def part(self, image: ImageRef) -> bytes:
        """The ``image_url`` part of one picture; base64 has nothing that JSON would escape."""
        part = self._parts.get(image.sha256)
        if part is not None:
            self._parts.move_to_end(image.sha256)
            return part
        data_uri = b"data:%s;base64,%s" % (image.media_type.encode(), base64.b64encode(image.data))
        part = b'{"type":"image_url","image_url":{"url":"%s"}}' % data_uri
        self._parts[image.sha256] = part
        self._size += len(part)
        while self._size > self._limit and len(self._parts) > 1:
            self._size -= len(self._parts.popitem(last=False)[1])
        return part


def messages_json(messages: Sequence[Message], pictures: PictureCache) -> tuple[bytes, bool]:
    """The ``messages`` array, and whether an empty turn had to be filled with :data:`EMPTY_TURN`.

    A turn of words alone is one string (some servers take nothing else from system and assistant); pictures make it a list of parts
    in the order shown. Empty pieces of text are left out.
    """
    turns = []
    filled = False
    for message in messages:
        parts = [part for part in message.parts if not isinstance(part, str) or part.strip()]
        if not parts:
            filled = True
            content = json.dumps(EMPTY_TURN).encode()
        elif any(isinstance(part, ImageRef) for part in parts):
            content = b"[%s]" % b",".join(
                b'{"type":"text","text":%s}' % json.dumps(part).encode() if isinstance(part, str) else pictures.part(part)
                for part in parts
            )
        else:
            content = json.dumps("\n".join(part for part in parts if isinstance(part, str))).encode()
        turns.append(b'{"role":"%s","content":%s}' % (message.role.encode(), content))
    return b"[%s]" % b",".join(turns), filled
