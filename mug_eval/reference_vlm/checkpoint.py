"""Where the training stands, in one safetensors file: weights, the heads used in training only, the optimiser's moments, and counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from mug_eval.errors import UserError


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the training is.

    Attributes:
        seed: of the training.
        stage: name of the stage.
        step: steps done in it.
        scenes: pictures seen since the first stage.
        cpu_seconds: CPU time spent since the first stage, by all processes (the first one's, times their number).
    """

    seed: int
    stage: str = ""
    step: int = 0
    scenes: int = 0
    cpu_seconds: float = 0.0


def save(path: Path, standing: Standing, modules: Mapping[str, torch.nn.Module], optimiser: torch.optim.Optimizer | None) -> None:
    """Write a checkpoint beside its place and rename it, so that a kill leaves the one before."""
    tensors = {}
    for name, module in modules.items():
        for key, parameter in module.named_parameters():  # tied weights once
            tensors[f"{name}/{key}"] = parameter.detach().contiguous()
    if optimiser is not None:
        for index, moments in optimiser.state_dict()["state"].items():
            for key, value in moments.items():
                tensors[f"optimiser/{index}/{key}"] = torch.as_tensor(value).contiguous()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    save_file(tensors, beside, {"standing": json.dumps(asdict(standing))})
    beside.replace(path)


def load(path: Path, modules: Mapping[str, torch.nn.Module], optimiser: torch.optim.Optimizer | None = None) -> Standing:
    """Read a checkpoint into modules, and into the optimiser if it was saved with one.

    Raises:
        UserError: a parameter is missing or has another shape: the file is of another architecture or vocabulary.
    """
    with safe_open(path, "pt") as file:
        standing = Standing(**json.loads(file.metadata()["standing"]))
        names = set(file.keys())
        for name, module in modules.items():
            for key, parameter in module.named_parameters():
                wanted = f"{name}/{key}"
                if wanted not in names or tuple(file.get_slice(wanted).get_shape()) != tuple(parameter.shape):
                    raise UserError(
                        f"{path} does not fit: {wanted} is missing or has another shape; train from nothing into a new folder"
                    )
                parameter.data.copy_(file.get_tensor(wanted))
        moments = [name for name in names if name.startswith("optimiser/")]
        if optimiser is not None and moments:
            state: dict[int, dict[str, torch.Tensor]] = {}
            for name in moments:
                _, index, key = name.split("/")
                state.setdefault(int(index), {})[key] = file.get_tensor(name)
            optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    return standing
