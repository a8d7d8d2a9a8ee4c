"""What a run will do: which models on which benchmarks with which settings, all names resolved and all mistakes found."""

from __future__ import annotations

import argparse
import hashlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mug_eval.ablations import ABLATIONS, AUTO, pictures_of, split_ablation
from mug_eval.backbones.catalogue import BackboneSpec, load_catalogue, parse_backbone
from mug_eval.benchmarks import load_task, task_names
from mug_eval.benchmarks.data_files import data_files
from mug_eval.chat import Sampling
from mug_eval.configuration import load_config, merge, parse_set, resolve
from mug_eval.counterfactual import Match
from mug_eval.decoding import decoding
from mug_eval.errors import UserError
from mug_eval.methods import Method, methods
from mug_eval.names import nearest, unknown

_CHAINS_IN_NAME = re.compile(r"sc([0-9]+)")
_RUN_SETTINGS = ("sampling", "image")
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class Job:
    """One model on one benchmark: everything that its results depend on.

    Attributes:
        model: ``mug-qwen``; also the name of the results' folder.
        method: the protocol.
        config: the protocol's settings, an instance of ``method.config``.
        backbone: the model that plays.
        preset: ``native`` or ``paper``.
        sampling: the decoding settings of every call.
        image_size: (width, height) in pixels to which pictures are resized; None leaves them.
        seed: of every draw.
        benchmark: ``POPE``.
        data_file: a local TSV instead of the published one.
        counterfactuals: the folder of the pictures I-.
        match: whether a counterfactual must be made for the question, may be any of its picture, or must be of something other.
        build: whether this run first builds ``counterfactuals``, with its own backbone.
        ablation: the paper's or our control that is played, by name; also in ``model``.
        limit: play only that many questions.
        judge: what the scorer uses to read predictions.
    """

    model: str
    method: Method
    config: Any
    backbone: BackboneSpec
    preset: str
    sampling: Sampling
    image_size: tuple[int, int] | None
    seed: int
    benchmark: str
    data_file: Path | None = None
    counterfactuals: Path | None = None
    match: Match = "question"
    build: bool = False
    ablation: str | None = None
    limit: int | None = None
    judge: str = "exact_matching"

    @property
    def title(self) -> str:
        """``mug-qwen on POPE``."""
        return f"{self.model} on {self.benchmark}"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole run.

    Attributes:
        jobs: models x benchmarks, in the order given.
        work_dir: folder of the journal and of all results.
        concurrency: most calls in flight, as the user said; None: what suits each backbone (:meth:`calls_in_flight`).
        call_budget: most requests of this run; None: no limit.
        token_budget: most prompt and completion tokens of this run; None: no limit.
        timeout: seconds that one call may take.
        retries: further tries of a call that failed.
        patience: seconds that the backbone may stay away before the run stops.
        allow_missing: score even if questions are owed.
        quiet: closing lines only.
        wait: wait for another run on the same work_dir instead of refusing.
        dry_run: count and estimate, ask nothing.
    """

    jobs: tuple[Job, ...]
    work_dir: Path
    concurrency: int | None = None
    call_budget: int | None = None
    token_budget: int | None = None
    timeout: float = 600.0
    retries: int = 5
    patience: float = 900.0
    allow_missing: bool = False
    quiet: bool = False
    wait: bool = False
    dry_run: bool = False

    def calls_in_flight(self, backbone: BackboneSpec) -> int:
        """Most calls in flight for a backbone."""
        return backbone.calls_in_flight if self.concurrency is None else self.concurrency


@dataclass(frozen=True, slots=True)
class Player:
    """A method and the backbone that plays it, by the name of their folder; ``fixed`` are settings that the name itself gives."""

    name: str
    method: Method
    fixed: Mapping[str, Any]
    backbone: BackboneSpec
    ablation: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """How a model plays: the part of a job that does not depend on the benchmark."""

    config: Any
    sampling: Sampling
    image_size: tuple[int, int] | None


def model_setting(
    name: str, *, preset: str = "native", settings: Sequence[str] = (), base_url: str | None = None
) -> tuple[Player, ModelSetting]:
    """Resolve ``<method>-<backbone>`` with the same rules as the command line.

    Args:
        name: ``mug-qwen``.
        preset: ``native`` or ``paper``.
        settings: as after ``--set``; those of other methods are passed over, since one list serves many models.
        base_url: of an OpenAI-compatible server.

    Raises:
        UserError: an unknown name, or a setting that does not fit.
    """
    name, ablation = split_ablation(name)
    method_name, backbone = split_model(name)
    spec = parse_backbone(backbone)
    player = _player(method_name, replace(spec, base_url=base_url) if base_url else spec, ablation)
    if ablation == "random-edit":
        raise UserError(f"{player.name} is played by mug-eval run only: which pictures it takes depends on the folder")
    tree = parse_set(settings)
    mine = {key: value for key, value in tree.items() if key not in methods() or key == player.method.name}
    _check_namespaces(mine, [player])
    return player, _setting(player, preset, mine)


def _setting(player: Player, preset: str, settings: Mapping[str, Any]) -> ModelSetting:
    config = _method_config(player, settings)
    sampling, image = decoding(player.backbone, preset, settings)
    return ModelSetting(config, sampling, image.size)


def make_plan(args: argparse.Namespace) -> Plan:
    """Resolve what the user typed (``cli.run`` defines the options).

    Raises:
        UserError: an unknown name, a setting that does not fit, a missing file.
    """
    players = _players(args)
    chosen = _benchmarks(args)
    settings = merge(load_config(args.config) if args.config else {}, parse_set(args.set or []))
    _check_namespaces(settings, players)
    if args.counterfactuals is not None and str(args.counterfactuals) != AUTO and not args.counterfactuals.is_dir():
        raise UserError(f"--counterfactuals {args.counterfactuals}: no such folder")
    if str(args.counterfactuals) == AUTO and len({player.backbone for player in players}) > 1:
        raise UserError(
            "--counterfactuals auto plans with the backbone that plays, and here are several: build them once with mug-eval "
            "counterfactuals build, and give that folder"
        )
    texts = [benchmark for benchmark in chosen if load_task(benchmark).text is not None]
    if args.counterfactuals is not None and (len(texts) == len(chosen) or (texts and str(args.counterfactuals) == AUTO)):
        raise UserError(f"--counterfactuals: {', '.join(texts)} has no pictures that could be altered; leave one of the two out")
    if texts and (gamers := [player.name for player in players if player.method.uses_counterfactual]):
        raise UserError(
            f"{', '.join(gamers)} is about a picture that differs, and {', '.join(texts)} has no pictures: play direct, cot, sc, "
            "self-refine, mad-vote, mad-judge or cfmad there"
        )
    jobs = []
    for player in players:
        how = _setting(player, args.preset, settings)
        jobs += [
            Job(
                model=player.name,
                method=player.method,
                config=how.config,
                backbone=player.backbone,
                preset=args.preset,
                sampling=how.sampling,
                image_size=how.image_size,
                seed=args.seed,
                benchmark=benchmark,
                data_file=data_file,
                **({} if benchmark in texts else pictures_of(args, player.method, player.ablation, benchmark)),
                ablation=player.ablation,
                limit=args.limit,
                judge=args.judge,
            )
            for benchmark, data_file in chosen.items()
        ]
    return Plan(
        jobs=tuple(jobs),
        work_dir=args.work_dir,
        concurrency=args.concurrency,
        call_budget=args.call_budget,
        token_budget=args.token_budget,
        timeout=args.timeout,
        retries=args.retries,
        patience=args.patience,
        allow_missing=args.allow_missing,
        quiet=args.quiet,
        wait=args.wait,
        dry_run=args.dry_run,
    )


def find_method(name: str) -> tuple[Method, dict[str, Any]]:
    """The method of that name and the settings that the name gives: ``sc12`` is self-consistency with ``k=12``.

    Raises:
        UserError: no such method; says the nearest.
    """
    chains = _CHAINS_IN_NAME.fullmatch(name)
    found = methods().get("sc" if chains else name)
    if found is None:
        raise UserError(unknown("method", name, methods()))
    return found, {"k": int(chains[1])} if chains else {}


def split_model(name: str) -> tuple[str, str]:
    """``mad-vote-gpt-4o-mini`` -> (``mad-vote``, ``gpt-4o-mini``), ``mug-openai:m`` -> (``mug``, ``openai:m``).

    Of several methods that fit, the longest.

    Raises:
        UserError: the name begins with no method, or what follows is no backbone; says the nearest.
    """
    catalogue = load_catalogue()
    starts = [method for method in methods() if name.startswith(f"{method}-")]
    chains = re.match(rf"({_CHAINS_IN_NAME.pattern})-", name)
    if chains:
        starts.append(chains[1])
    if not starts:
        whole = [f"{method}-{backbone}" for method in methods() for backbone in catalogue]
        close = nearest(name, whole)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(
            f"unknown model {name!r}: {hint}a model is <method>-<backbone> "
            f"(methods: {', '.join(methods())}; backbones: {', '.join(catalogue)})"
        )
    method = max(starts, key=len)
    backbone = name[len(method) + 1 :]
    if backbone not in catalogue and ":" not in backbone:
        raise UserError(
            f"model {name!r}: {unknown('backbone', backbone, catalogue)}; "
            f"for any other model write {method}-KIND:NAME, e.g. {method}-openai:{backbone}"
        )
    return method, backbone


def safe_name(name: str) -> str:
    """The name as one folder name on any file system: letters, digits, ``.``, ``_`` and ``-``; a long one ends in its hash."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "model"
    if len(safe) <= _LONGEST_NAME:
        return safe
    return f"{safe[: _LONGEST_NAME - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _players(args: argparse.Namespace) -> list[Player]:
    """Every ``--model``, then every ``--method`` with every ``--backbone``."""
    if not args.model and not args.method:
        raise UserError("say what to play: --model <method>-<backbone>, or --method NAME --backbone KIND:NAME (see --list)")
    if bool(args.method) != bool(args.backbone):
        missing = "--backbone KIND:NAME" if args.method else "--method NAME"
        raise UserError(f"--method and --backbone go together: add {missing}")
    models = [split_ablation(name) for name in args.model or []]
    pairs = [(*split_model(name), ablation) for name, ablation in models]
    named = [(method, parse_backbone(backbone), ablation) for method, backbone, ablation in pairs]
    named += [(method, parse_backbone(backbone), None) for method in args.method or [] for backbone in args.backbone or []]
    if args.ablation and all(method != "mug" or ablation for method, _, ablation in named):
        raise UserError(f"--ablation {args.ablation} is of mug, and no mug is played that has none yet")
    players: dict[str, Player] = {}
    for method_name, spec, ablation in named:
        spec = at_server(spec, args.base_url)
        if spec.kind == "hf":
            spec = replace(spec, device=args.device, dtype=args.dtype)
        player = _player(method_name, spec, ablation or (args.ablation if method_name == "mug" else None))
        if player.name in players:
            raise UserError(f"the model {player.name} is given twice, and both would write to one folder; keep one")
        players[player.name] = player
    for option in ("device", "dtype"):
        if getattr(args, option) != "auto" and all(player.backbone.kind != "hf" for player in players.values()):
            raise UserError(f"--{option} is for models in this process (hf:), and none is played here")
    return list(players.values())


def _player(method_name: str, spec: BackboneSpec, ablation: str | None) -> Player:
    method, fixed = find_method(method_name)
    name = f"{method_name}-{safe_name(spec.name)}"
    if ablation is None:
        return Player(name, method, fixed, spec)
    if method.name != "mug":
        raise UserError(f"{ablation} is an ablation of mug, not of {method_name}: leave out @{ablation}")
    return Player(f"{name}@{ablation}", method, {**fixed, **ABLATIONS[ablation]}, spec, ablation)


def at_server(spec: BackboneSpec, base_url: str | None) -> BackboneSpec:
    """The backbone at the server that the user named.

    Raises:
        UserError: a backbone that uses no server, or an address that cannot be.
    """
    if base_url is None:
        return spec
    if spec.given_kind not in (None, "openai"):
        raise UserError(f"--base-url is for openai: backbones; {spec.given_kind}:{spec.name} does not use it")
    try:
        address = urllib.parse.urlsplit(base_url)
        known = address.scheme in ("http", "https") and address.hostname
    except ValueError:
        known = None
    if not known:
        raise UserError("--base-url: write the whole address, e.g. http://127.0.0.1:8000/v1")
    if "@" in address.netloc:
        raise UserError(
            "--base-url holds a user name or password: put the key into the environment and leave it out of the address"
        )
    return replace(spec, base_url=base_url)


def _benchmarks(args: argparse.Namespace) -> dict[str, Path | None]:
    """Benchmark -> its local file, if any."""
    if not args.data:
        raise UserError(f"say which benchmarks: --data NAME... (there are: {', '.join(task_names())})")
    found: dict[str, Path | None] = {}
    for name in args.data:
        if name not in task_names():
            raise UserError(unknown("benchmark", name, task_names()))
        if name in found:
            raise UserError(f"--data names {name} twice; keep one")
        found[name] = None
    found.update(data_files(args.data_file or (), list(found)))
    return found


def _check_namespaces(settings: Mapping[str, Any], players: Sequence[Player]) -> None:
    """Every setting must be for something that this run uses: one that has no effect is a mistake."""
    played = dict.fromkeys(player.method.name for player in players)
    allowed = (*played, *_RUN_SETTINGS)
    for namespace, values in settings.items():
        if namespace not in allowed:
            if _CHAINS_IN_NAME.fullmatch(namespace):
                raise UserError(f"settings of self-consistency are named sc.FIELD, not {namespace}.FIELD")
            if namespace in methods():
                raise UserError(f"{namespace} is set but not played here (played: {', '.join(played)})")
            raise UserError(unknown("settings", namespace, allowed))
        if not isinstance(values, Mapping):
            raise UserError(f"{namespace}={values!r}: name the field as well, e.g. --set {namespace}.FIELD=VALUE")


def _method_config(player: Player, settings: Mapping[str, Any]) -> Any:
    given = settings.get(player.method.name, {})
    for field, value in player.fixed.items():
        if field in given:
            raise UserError(f"{player.name} already says {field}={value}: leave out {player.method.name}.{field}")
    return resolve(player.method.config, {**player.fixed, **given}, where=player.method.name)
