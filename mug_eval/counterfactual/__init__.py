"""The counterfactual pictures I-."""

from typing import Literal

Match = Literal["question", "image", "other"]
"""Which altered picture serves a question: one made for it, one or made for any about its picture, or one made for another question."""
