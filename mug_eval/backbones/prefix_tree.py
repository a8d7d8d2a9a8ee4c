"""What was computed before, by its tokens: a radix tree of keys and values with a byte budget, least recently used first.

Nothing here knows a method or a game. Calls that begin with the same tokens about the same pictures share what they share, however far
that goes: the picture, the question, the rules, and every round of a transcript that a later prompt repeats.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mug_eval.backbones.hf_prompt import Tokens
from mug_eval.backbones.kv_segments import Segment, nbytes, part


@dataclass(slots=True, eq=False)
class _Node:
    keys: Tokens
    segment: Segment
    parent: _Node | None
    used: int = 0
    children: dict[int, _Node] = field(default_factory=dict)


class PrefixTree:
    """Keys and values of prefixes.

    Args:
        budget: most bytes held; 0 keeps nothing.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.nbytes = 0
        self.evicted = 0
        """Segments that were let go to keep to the budget."""
        self._clock = 0
        self._root = _Node(np.zeros(0, np.int64), (), None)

    def match(self, keys: Tokens) -> tuple[int, list[Segment]]:
        """The longest known prefix of ``keys``: how many tokens, and their segments in order."""
        self._clock += 1
        node, start, found = self._root, 0, []
        while start < len(keys):
            child = node.children.get(int(keys[start]))
            if child is None:
                break
            same = shared(child.keys, keys[start:])
            child.used = self._clock
            start += same
            if same < len(child.keys):
                found.append(part(child.segment, 0, same))
                break
            found.append(child.segment)
            node = child
        return start, found

    def insert(self, keys: Tokens, start: int, segment: Segment) -> None:
        """Remember tokens [start, len(keys)); those before must be known, else nothing is kept (they were evicted meanwhile).

        Args:
            keys: (length,) of the whole prefix.
            start: where the segment begins.
            segment: keys and values of the tokens from there; copies, that nobody changes.
        """
        node, at = self._root, 0
        self._clock += 1
        while at < len(keys):
            child = node.children.get(int(keys[at]))
            if child is None:
                break
            same = shared(child.keys, keys[at:])
            if same < len(child.keys) and at + same < len(keys) and at + same >= start:
                child = self._split(child, same)
            elif same < len(child.keys):
                return
            child.used = self._clock
            node, at = child, at + same
        if at < start or at == len(keys):
            return
        rest = part(segment, at - start, len(keys) - start, copy=at > start)
        if nbytes(rest) > self.budget:
            return
        node.children[int(keys[at])] = _Node(keys[at:].copy(), rest, node, self._clock)
        self.nbytes += nbytes(rest)
        if self.nbytes > self.budget:
            self._evict()

    def clear(self) -> None:
        """Forget everything."""
        self._root.children.clear()
        self.nbytes = 0

    def _split(self, node: _Node, at: int) -> _Node:
        """Cut a node in two; the first part takes its place and is returned. Copies, so that the parts can go one by one."""
        assert node.parent is not None
        first = _Node(node.keys[:at], part(node.segment, 0, at, copy=True), node.parent, node.used, {int(node.keys[at]): node})
        node.parent.children[int(node.keys[0])] = first
        node.segment = part(node.segment, at, len(node.keys), copy=True)
        node.keys, node.parent = node.keys[at:], first
        return first

    def _evict(self) -> None:
        """Let leaves go, the least recently used first, until there is a tenth of the budget to spare."""
        while self.nbytes > self.budget * 0.9:
            leaves = sorted((node for node in self._nodes() if not node.children), key=lambda node: node.used)
            if not leaves:
                return
            for leaf in leaves:
                if self.nbytes <= self.budget * 0.9:
                    return
                assert leaf.parent is not None
                del leaf.parent.children[int(leaf.keys[0])]
                self.nbytes -= nbytes(leaf.segment)
                self.evicted += 1

    def _nodes(self) -> list[_Node]:
        found, open_nodes = [], list(self._root.children.values())
        while open_nodes:
            node = open_nodes.pop()
            found.append(node)
            open_nodes.extend(node.children.values())
        return found


def shared(one: Tokens, other: Tokens) -> int:
    """How many tokens two sequences have in common at their beginning."""
    length = min(len(one), len(other))
    differ = one[:length] != other[:length]
    return int(differ.argmax()) if differ.any() else length
