"""Matrix products on a CPU by oneDNN, which uses the widest registers on every make of CPU; MKL does not on some.

Measured on a server CPU of AMD, one thread: 110 against 250 GFLOP/s from some sixteen rows on (docs/performance.md). Results differ
from MKL's in rounding alone, as those of two batch sizes do.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

_FEWEST_ROWS = 12
"""Below, a call of oneDNN costs more than it saves."""
_FEWEST_UNPACKED = 192
"""The same where the weights are not packed, which oneDNN then does at each call."""


_ROWS = 64
"""For which packing is tuned; it serves any number."""


def available(kind: torch.dtype, device: torch.device) -> bool:
    """Whether products of that kind can be had here."""
    if device.type != "cpu" or kind != torch.float32 or not torch.backends.mkldnn.is_available():
        return False
    return hasattr(torch.ops.mkldnn, "_linear_pointwise") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")


def product(left: torch.Tensor, right: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``left @ right.T + bias``.

    Args:
        left: (..., rows, inner)
        right: (columns, inner), of any strides.
        bias: (columns,)

    Returns:
        (..., rows, columns)
    """
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")


def linear(module: torch.nn.Linear, *, packed: bool) -> Any:
    """A ``forward`` for that module.

    Args:
        module: on the CPU, in fp32.
        packed: hold the weights a second time, as oneDNN wants them, which pays for small batches.
    """
    weight, bias = module.weight.detach(), None if module.bias is None else module.bias.detach()
    ready = torch.ops.mkldnn._reorder_linear_weight(weight, _ROWS) if packed else weight
    fewest = _FEWEST_ROWS if packed else _FEWEST_UNPACKED

    def forward(hidden: torch.Tensor) -> torch.Tensor:
        if hidden.numel() < fewest * hidden.shape[-1]:
            return functional.linear(hidden, weight, bias)
        return product(hidden, ready, bias)

    return forward
