"""The command that plays a run again on another machine: made from what the run was, not from what was typed."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mug_eval.ablations import split_ablation, split_arm
from mug_eval.backbones.catalogue import BASE_URL_VARIABLE
from mug_eval.backbones.provider import provider
from mug_eval.configuration import as_json
from mug_eval.errors import UserError
from mug_eval.plan import model_setting
from mug_eval.statistics.runs import Group

SERVER = "http://SERVER/v1"
"""Stands for the address of whoever plays it again."""

_RANDOM_EDIT = "random-edit"


def command_of(group: Group, *, published: bool) -> str:
    """The command line, as a shell takes it.

    It was tried: its options give the run's settings, method, decoding and pictures' size alike.

    Args:
        group: the runs, which differ in their seed only.
        published: whether the benchmark's published table was played; a file stands in the command otherwise.

    Raises:
        UserError: no command of this version gives these settings.
    """
    run = group.runs[0]
    config = run.config
    with _without_server():
        name, server, settings = _model(run.model, config)
    words = ["mug-eval", "run", "--model", name, *(["--base-url", SERVER] if server else []), "--data", run.benchmark]
    if not published:
        words += ["--data-file", f"{run.benchmark}={run.benchmark}.tsv"]
    pictures = config.get("counterfactuals")
    if pictures is not None:
        words += ["--counterfactuals", "counterfactuals"]
        words += ["--counterfactual-match", "image"] if pictures["match"] == "image" else []
    words += ["--preset", config["preset"]]
    dtype = config["backbone"].get("dtype", "auto")
    words += ["--dtype", dtype] if dtype != "auto" else []
    words += ["--set", *settings] if settings else []
    words += ["--limit", str(run.run["limit"])] if run.run["limit"] is not None else []
    words += ["--judge", run.run["judge"]] if run.run["judge"] != "exact_matching" else []
    line = shlex.join(words)
    if len(group.seeds) == 1:
        return f"{line} --seed {group.seeds[0]}"
    seeds = " ".join(map(str, group.seeds))
    return f"for seed in {seeds}; do {line} --seed $seed --work-dir outputs-$seed; done"


def _model(folder: str, config: Mapping[str, Any]) -> tuple[str, bool, list[str]]:
    """(the name after --model, whether it needs a server's address, the settings after --set) that give a run's config."""
    plain, arm = split_arm(folder)
    if arm:
        raise UserError(
            f"{folder} is a study's arm, and its name is none that mug-eval run plays: play mug-eval run --model {plain} with the arm's "
            "settings (--set) into a work-dir of its own, and add that run"
        )
    wanted, backbone = dict(config["config"]), config["backbone"]
    stem, ablation = split_ablation(folder)
    method = f"sc{wanted['k']}" if config["method"] == "sc" and not stem.startswith("sc-") else config["method"]
    reason = ""
    for name in (stem, f"{method}-{backbone['kind']}:{backbone['model']}"):
        # The pictures of random-edit are chosen by mug-eval run; its settings are the full game's.
        shown = f"{name}@{ablation}" if ablation else name
        asked = name if ablation == _RANDOM_EDIT else shown
        try:
            player, default = model_setting(asked, preset=config["preset"])
            own = player.backbone.entry.base_url if player.backbone.entry else None
            server = backbone["kind"] == "openai" and not (own and provider(own) == backbone.get("provider"))
            address = SERVER if server else None
            settings = [
                *_changed(config["method"], as_json(default.config), wanted),
                *_changed("sampling", as_json(default.sampling), config["sampling"]),
            ]
            size = config["image_size"]
            if size != (list(default.image_size) if default.image_size else None):
                settings.append(f"image.size={'native' if size is None else '{}x{}'.format(*size)}")
            player, again = model_setting(asked, preset=config["preset"], settings=settings, base_url=address)
        except UserError as error:
            reason = reason or str(error)
            continue
        given = player.backbone.identity
        same_model = (given["kind"], given["model"]) == (backbone["kind"], backbone["model"])
        same_size = (list(again.image_size) if again.image_size else None) == config["image_size"]
        same = as_json(again.config) == wanted and as_json(again.sampling) == config["sampling"] and same_size
        if same_model and same and player.name == (stem if ablation == _RANDOM_EDIT else folder):
            return shown, server, settings
        reason = reason or ("its settings" if same_model else f"the model {backbone['model']!r}") + " cannot be given"
    raise UserError(f"{folder}: no command of this version plays this run again ({reason}); play it with this version")


def _changed(namespace: str, default: Mapping[str, Any], wanted: Mapping[str, Any], prefix: str = "") -> list[str]:
    """``namespace.field=value`` for every field that is not as by default."""
    found = []
    for name, value in wanted.items():
        if isinstance(value, Mapping) and isinstance(default.get(name), Mapping):
            found += _changed(namespace, default[name], value, f"{prefix}{name}.")
        elif name not in default or default[name] != value:
            found.append(f"{namespace}.{prefix}{name}={json.dumps(value)}")
    return found


@contextlib.contextmanager
def _without_server() -> Iterator[None]:
    """What a name means must not depend on the environment of whoever adds the row."""
    before = os.environ.pop(BASE_URL_VARIABLE, None)
    try:
        yield
    finally:
        if before is not None:
            os.environ[BASE_URL_VARIABLE] = before
