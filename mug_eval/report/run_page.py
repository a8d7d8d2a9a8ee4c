"""The page of a run: how good, how sure, what it cost, what it fixed and broke."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mug_eval.report.families import Family, Shown, fixed_and_broken
from mug_eval.report.page_charts import cost_chart, survival_chart
from mug_eval.report.plain_text import command_line, without_places
from mug_eval.report.templating import environment
from mug_eval.statistics.cost import tokens

_SETTINGS = ("method", "preset", "image_size", "seed", "dataset_sha256", "method_sha256")


def run_html(member: Shown, family: Family) -> str:
    """The whole page.

    Args:
        member: the run.
        family: the runs that it is shown beside.
    """
    hunt = member.scored.games.detection
    run = member.run
    return (
        environment()
        .get_template("run.html")
        .render(
            title=f"{member.label} on {run.benchmark}",
            member=member,
            run=run,
            family=family,
            scored=member.scored,
            survival=survival_chart(hunt) if hunt and hunt.rounds else None,
            cost=cost_chart(family, member),
            beside=[
                {
                    "member": other,
                    "tokens": tokens(other.scored.group),
                    "against": None if other is member else fixed_and_broken(run, other.run),
                }
                for other in family.members
            ],
            tokens=tokens(member.scored.group),
            total=(run.run.get("cost") or {}).get("total") or {},
            settings=list(settings(run.run)),
            command=command_line([str(word) for word in run.run.get("command") or []]),
            notes=[*(without_places(str(note)) for note in run.run.get("notes") or []), *family.notes],
        )
    )


def settings(run: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a run was played with, as rows; no address of a server, no folder of this machine.

    Args:
        run: ``run.json``.
    """
    config = run["config"]
    backbone = config.get("backbone")
    if isinstance(backbone, Mapping):
        # Named one by one: what else a backbone's entry may hold (a server's address, one day a header) is not for others.
        for name in ("kind", "model", "name", "provider", "revision", "sha256", "dtype"):
            if backbone.get(name) is not None:
                yield f"backbone {name}", _text(backbone[name])
    for name in _SETTINGS:
        if config.get(name) is not None:
            yield name.replace("_", " "), _text(config[name])
    for part in ("config", "sampling"):
        for name, value in (config.get(part) or {}).items():
            if value is not None:
                yield f"{'method' if part == 'config' else part} {str(name).replace('_', ' ')}", _text(value)
    pictures = config.get("counterfactuals")
    if isinstance(pictures, Mapping):
        yield "counterfactuals sha256", _text(pictures.get("sha256"))
    yield "judge", _text(run.get("judge"))
    for name, version in (run.get("versions") or {}).items():
        yield _text(name), _text(version)


def _text(value: Any) -> str:
    return without_places(value if isinstance(value, str) else json.dumps(value))
