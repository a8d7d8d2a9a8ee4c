"""Attention of packed passes: many calls' tokens in one row without padding, each looking at its own call's keys and values.

A pass is told by whoever runs it (:func:`running`); what the tokens look at is the pass's own affair (``packed_prompts``,
``decoding``). Without one, a model in which this is installed computes as with ``sdpa``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

NAME = "mug_eval_pass"
_BENT = ("softcap", "position_bias", "sliding_window", "s_aux")
"""What a model may hand to attention that is not followed here."""


class Pass(Protocol):
    """One forward pass over tokens of many calls, packed into one row.

    Attributes:
        columns: keys that the pass holds, new ones included; what its memory grows with.
        needed: (n,) the tokens whose outputs are read from the last layer; None for all.
    """

    columns: int
    needed: torch.Tensor | None

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
        """Take in a layer's new keys and values, and let the tokens look.

        Args:
            layer: which one.
            query: (heads, tokens, size).
            key: (key heads, tokens, size).
            value: as ``key``.
            scale: of the products.

        Returns:
            (tokens, heads, size)
        """
        ...


class _Running(threading.local):
    one: Pass | None = None


_running = _Running()


@contextmanager
def running(one: Pass) -> Iterator[None]:
    """Whatever model runs in this thread meanwhile runs that pass."""
    _running.one = one
    try:
        yield
    finally:
        _running.one = None


class Installed:
    """Packed passes for one model, until :meth:`remove`.

    Besides attention, the last layer's work on tokens whose output nobody reads is left out.

    Args:
        model: a transformers model whose language model attends by ``sdpa`` or ``eager``.

    Raises:
        ValueError: it attends in another way.
    """

    def __init__(self, model: Any) -> None:
        self._config = model.config.get_text_config()
        self._was = self._config._attn_implementation
        if self._was not in ("sdpa", "eager", NAME):
            raise ValueError(f"its attention is {self._was}")
        AttentionInterface.register(NAME, _attend)
        AttentionMaskInterface.register(NAME, _mask)
        self._config._attn_implementation = NAME
        self._replaced: list[tuple[Any, Any]] = []
        for module in _read_by_one_token(model, int(self._config.num_hidden_layers) - 1):
            self.replace(module, _only_needed(module.forward))

    def replace(self, module: Any, forward: Any) -> None:
        """Give a module another ``forward``."""
        self._replaced.append((module, module.__dict__.get("forward")))
        module.forward = forward

    def remove(self) -> None:
        """Leave the model as it was."""
        self._config._attn_implementation = "sdpa" if self._was == NAME else self._was
        for module, was in reversed(self._replaced):
            if was is None:
                del module.forward
            else:
                module.forward = was
        self._replaced = []


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers calls it; the batch has one row in a packed pass."""
    one = _running.one
    if one is None:
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    for name in _BENT:
        if kwargs.get(name) is not None:
            raise ValueError(f"its attention has {name}={kwargs[name]}")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return one.attend(module.layer_idx, query[0], key[0], value[0], scale)[None], None


def _mask(*args: Any, **kwargs: Any) -> Any:
    """None in a packed pass, which knows who looks at what."""
    return None if _running.one is not None else ALL_MASK_ATTENTION_FUNCTIONS["sdpa"](*args, **kwargs)


def _read_by_one_token(model: Any, last: int) -> list[Any]:
    """The parts of the last layer that work on each token by itself and after which no token looks at another."""
    layers = [
        module
        for module in model.modules()
        if getattr(getattr(module, "self_attn", None), "layer_idx", None) == last and hasattr(module, "mlp")
    ]
    if len(layers) != 1:
        return []
    found = (layers[0].mlp, getattr(layers[0].self_attn, "o_proj", None))
    return [module for module in found if module is not None]


def _only_needed(forward: Any) -> Any:
    """The same, for the tokens alone that are needed; zero for the others."""

    def needed(hidden: torch.Tensor) -> torch.Tensor:
        which = None if _running.one is None else _running.one.needed
        if which is None:
            return forward(hidden)
        which = which.to(hidden.device)
        some = forward(hidden[:, which])
        whole: torch.Tensor = some.new_zeros((*hidden.shape[:-1], some.shape[-1]))
        whole[:, which] = some
        return whole

    return needed
