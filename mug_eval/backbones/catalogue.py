"""Backbones by name: the short ones of backbones.yaml, and KIND:NAME for anything else. Light to import; opening one is not."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from mug_eval.backbones.model_folder import folder_hash
from mug_eval.backbones.provider import provider
from mug_eval.chat import ChatModel, Sampling
from mug_eval.errors import UserError
from mug_eval.names import nearest, unknown

_PACKAGE = Path(__file__).resolve().parents[1]
BASE_URL_VARIABLE = "MUG_EVAL_BASE_URL"


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """How the MUG paper ran a backbone (METHODS 1e).

    Attributes:
        sampling: decoding.
        size: (width, height) in pixels of every picture.
    """

    sampling: Sampling
    size: tuple[int, int]


@dataclass(frozen=True, slots=True)
class BackboneEntry:
    """One short name of backbones.yaml.

    Attributes:
        name: the short name.
        summary: one line for ``--list``.
        openai: the model's id at an OpenAI-compatible server; "" if it is never served.
        vlmevalkit: its name in VLMEvalKit; "" if it has none.
        hf: its name on the Hugging Face hub, for models that can be played in this process.
        folder: for a model that comes with the package, its folder in it; it is always played in this process.
        base_url: where a closed model is; None for open ones.
        key_env: the environment variable with the key.
        max_tokens_field: what the request calls the most tokens of a reply.
        omit: decoding settings that the model does not take.
        paper: the MUG paper's settings, if it used the model.
    """

    name: str
    summary: str
    openai: str = ""
    vlmevalkit: str = ""
    hf: str | None = None
    folder: str | None = None
    base_url: str | None = None
    key_env: str = "OPENAI_API_KEY"
    max_tokens_field: str = "max_tokens"
    omit: tuple[str, ...] = ()
    paper: PaperSettings | None = None

    @property
    def needs(self) -> str:
        """What a user must have to play it, in a line; "" if nothing."""
        if self.folder is not None:
            return ""
        if self.base_url is not None:
            return f"a key in {self.key_env}"
        return "a server (--base-url or MUG_EVAL_BASE_URL), or a GPU and the model's files"


@dataclass(frozen=True, slots=True)
class BackboneSpec:
    """A backbone as the user named it.

    Attributes:
        name: the short name, or NAME of KIND:NAME.
        given_kind: KIND, or None for a short name.
        entry: what backbones.yaml says of it, None if nothing.
        base_url: the server that the user named, None if none.
        device: where a model in this process is (``--device``).
        dtype: its number format (``--dtype``).
    """

    name: str
    given_kind: str | None = None
    entry: BackboneEntry | None = None
    base_url: str | None = None
    device: str = "auto"
    dtype: str = "auto"

    @property
    def kind(self) -> str:
        """``openai``, ``hf`` or ``vlmevalkit``: a short name is played over HTTP where an address is known, else in this process."""
        if self.given_kind is not None:
            return self.given_kind
        if self.entry is not None and self.entry.folder is not None:
            return "hf"
        if self.address is not None:
            return "openai"
        return "hf" if self.entry is not None and self.entry.hf is not None else "vlmevalkit"

    @property
    def shipped(self) -> bool:
        """Whether it is the small model that comes with mug_eval, which has learnt drawn scenes and nothing else."""
        return self.given_kind is None and self.entry is not None and self.entry.folder is not None

    @property
    def calls_in_flight(self) -> int:
        """Most calls at a time where the user does not say: a model in this process batches them, and wants many to choose from."""
        return 64 if self.kind == "hf" else 8

    @property
    def address(self) -> str | None:
        """The server's base URL: the user's (``--base-url``, then MUG_EVAL_BASE_URL), else the closed model's own."""
        return self.base_url or os.environ.get(BASE_URL_VARIABLE) or (self.entry.base_url if self.entry else None)

    @property
    def model(self) -> str:
        """The model's name where it is played."""
        if self.given_kind is not None or self.entry is None:
            return self.name
        if self.entry.folder is not None:
            return str(_PACKAGE / self.entry.folder)
        if self.kind == "hf" and self.entry.hf is not None:
            return self.entry.hf
        return self.entry.openai if self.kind == "openai" else self.entry.vlmevalkit

    @property
    def paper(self) -> PaperSettings | None:
        """The MUG paper's settings, if it used the model."""
        return self.entry.paper if self.entry else None

    @property
    def identity(self) -> dict[str, Any]:
        """Which model plays, as JSON values.

        Two addresses of one's own network are the same place (``provider.provider``), and so are two folders with the same files.
        """
        if self.kind == "hf":
            folder = Path(self.model).expanduser()
            content = (
                {"model": self.name if self.shipped else folder.name, "sha256": folder_hash(folder)}
                if folder.is_dir()
                else {"model": self.model}
            )
            return {"kind": "hf", **content, "dtype": self.dtype}
        identity = {"kind": self.kind, "model": self.model}
        return identity | {"provider": provider(self.address or "")} if self.kind == "openai" else identity


@cache
def load_catalogue() -> Mapping[str, BackboneEntry]:
    """Every short name and what it stands for, in the file's order."""
    text = Path(__file__).with_name("backbones.yaml").read_text(encoding="utf-8")
    return {name: _entry(name, fields) for name, fields in yaml.safe_load(text).items()}


def parse_backbone(text: str) -> BackboneSpec:
    """A short name, or ``KIND:NAME``.

    Raises:
        UserError: neither; says the nearest names.
    """
    catalogue = load_catalogue()
    if text in catalogue:
        return BackboneSpec(text, entry=catalogue[text])
    kind, colon, name = text.partition(":")
    if not colon:
        close = nearest(text, catalogue)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(f"unknown backbone {text!r}; {hint}name one of {', '.join(catalogue)}, or KIND:NAME ({', '.join(KINDS)})")
    if kind not in KINDS:
        raise UserError(unknown("kind of backbone", kind, KINDS))
    if not name.strip():
        raise UserError(f"{text!r} names no model; write {kind}:NAME")
    known = next((entry for entry in catalogue.values() if getattr(entry, kind) == name), None)  # `name` is not blank
    return BackboneSpec(name, kind, known)


def open_backbone(
    spec: BackboneSpec | str, *, base_url: str | None = None, concurrency: int = 8, timeout: float = 600.0, sampling: Sampling
) -> ChatModel:
    """A model to play with.

    Args:
        spec: what the user named.
        base_url: a server, over the one that ``spec`` has.
        concurrency: most calls at a time.
        timeout: seconds for a call.
        sampling: the run's decoding, for models that fix it when they are made.

    Raises:
        UserError: an unknown name, a missing key or address, a model that cannot be opened.
    """
    spec = parse_backbone(spec) if isinstance(spec, str) else spec
    spec = replace(spec, base_url=base_url) if base_url else spec
    return KINDS[spec.kind](spec, concurrency, timeout, sampling)


def _open_openai(spec: BackboneSpec, concurrency: int, timeout: float, sampling: Sampling) -> ChatModel:
    from mug_eval.backbones.openai_api import OpenAIModel

    if spec.address is None:
        raise UserError(
            f"{spec.name}: where is it served? give --base-url, e.g. http://127.0.0.1:8000/v1, or set {BASE_URL_VARIABLE}"
        )
    entry = spec.entry
    if entry is None:
        return OpenAIModel(spec.model, spec.address, concurrency=concurrency, timeout=timeout)
    return OpenAIModel(
        spec.model,
        spec.address,
        key_env=entry.key_env,
        concurrency=concurrency,
        timeout=timeout,
        max_tokens_field=entry.max_tokens_field,
        omit=entry.omit,
    )


def _open_vlmevalkit(spec: BackboneSpec, concurrency: int, timeout: float, sampling: Sampling) -> ChatModel:
    from mug_eval.backbones.vlmevalkit_model import VLMEvalKitModel

    return VLMEvalKitModel(spec.model, sampling, concurrency=concurrency, timeout=timeout)


def _open_hf(spec: BackboneSpec, concurrency: int, timeout: float, sampling: Sampling) -> ChatModel:
    from mug_eval.backbones.transformers_vlm import TransformersVLM

    return TransformersVLM(spec.model, device=spec.device, dtype=spec.dtype)


KINDS: Mapping[str, Callable[[BackboneSpec, int, float, Sampling], ChatModel]] = {
    "openai": _open_openai,
    "vlmevalkit": _open_vlmevalkit,
    "hf": _open_hf,
}
"""Kind -> what opens a model of it. A new kind is one more entry (and a field of that name in :class:`BackboneEntry`)."""


def _entry(name: str, fields: dict[str, Any]) -> BackboneEntry:
    paper = fields.pop("paper", None)
    omit = tuple(fields.pop("omit", ()))
    settings = None
    if paper is not None:
        width, height = paper.pop("size")
        settings = PaperSettings(Sampling(**paper), (width, height))
    return BackboneEntry(name, **fields, omit=omit, paper=settings)
