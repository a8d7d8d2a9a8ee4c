"""What a store says of itself, counted: what the paper does not report."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from mug_eval.counterfactual.planning_prompts import QUESTION_TYPES
from mug_eval.counterfactual.store import ANSWERS, BUILD, GIVEN_UP, MANIFEST, RETRIED, TRIES
from mug_eval.errors import UserError

PAPER_TYPES: Mapping[str, Mapping[str, float]] = {
    benchmark: dict(zip(QUESTION_TYPES, shares, strict=True))
    for benchmark, shares in (
        ("POPE", (41.24, 20.36, 18.76, 10.98, 8.66)),
        ("HallusionBench", (36.80, 14.72, 27.66, 11.67, 9.15)),
        ("MMMU_DEV_VAL", (44.00, 29.05, 19.24, 2.19, 5.52)),
        ("MMStar", (35.40, 26.26, 25.07, 10.87, 2.40)),
    )
}
"""Per cent of questions by type (arXiv 2511.11182)."""


@dataclass(frozen=True, slots=True)
class ReadStore:
    """A store's files, read without touching them: a build may be writing.

    Attributes:
        folder: where it is.
        build: ``build.json``.
        accepted: the manifest's lines.
        given_up: lines of questions without a picture.
        tries: rejected tries.
        answers: what is known beside each decision.
        retried: what was given up and taken up again, with the tries and answers of that attempt.
    """

    folder: Path
    build: Mapping[str, Any]
    accepted: Sequence[Mapping[str, Any]]
    given_up: Sequence[Mapping[str, Any]]
    tries: Sequence[Mapping[str, Any]]
    answers: Sequence[Mapping[str, Any]]
    retried: Sequence[Mapping[str, Any]] = ()


def read_store(folder: Path) -> ReadStore:
    """Read a store.

    Raises:
        UserError: there is none, or a whole line of it is damaged.
    """
    try:
        build = json.loads((folder / BUILD).read_bytes())
        accepted, given_up, tries, answers = (_lines(folder / name) for name in (MANIFEST, GIVEN_UP, TRIES, ANSWERS))
        retried = _lines(folder / RETRIED) if (folder / RETRIED).exists() else []
    except (OSError, ValueError) as error:
        raise UserError(f"{folder} is no store of counterfactuals that can be read ({error})") from error
    decided = {line["question_index"] for line in (*accepted, *given_up)}
    # What a kill or a build at work has not decided yet counts as not begun.
    tries, answers = ([line for line in lines if line["question_index"] in decided] for lines in (tries, answers))
    # Taken up again, and killed before it was undecided: it stands in both files and is one attempt.
    standing = {line["question_index"]: line for line in given_up}
    retried = [line for line in retried if standing.get(line["question_index"]) != line["given_up"]]
    return ReadStore(folder, build, accepted, given_up, tries, answers, retried)


def _lines(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    lines = []
    for number, text in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path.name}, line {number}: not JSON ({error})") from error
        if not isinstance(line, dict) or not isinstance(line.get("question_index"), str):
            raise ValueError(f"{path.name}, line {number}: no record of a question")
        lines.append(line)
    return lines


def summary(store: ReadStore) -> dict[str, Any]:
    """Every number of the report, as JSON values; shares are of 1, and null where there is nothing to count."""
    decided = len(store.accepted) + len(store.given_up)
    types = Counter(line["edit_type"] for line in (*store.accepted, *store.given_up) if "edit_type" in line)
    known = [line for line in store.answers if "type" in line]
    both = [line["type"] for line in known if line["type"]["said"] is not None]
    flips = [line["planner"] for line in known if line.get("planner") is not None]
    read = [flip["flips"] for flip in flips if flip.get("flips") is not None]
    benchmark = store.build.get("benchmark", "")
    return {
        "benchmark": benchmark,
        "about": store.build.get("about"),
        "editor": store.build.get("editor"),
        "planner": store.build.get("planner"),
        "questions": decided,
        "accepted": len(store.accepted),
        "acceptance": _share(len(store.accepted), decided),
        "tries_per_accepted": round(mean(line["tries"] for line in store.accepted), 3) if store.accepted else None,
        "accepted_by_try": dict(
            sorted(Counter(str(line["tries"]) for line in store.accepted).items(), key=lambda item: int(item[0]))
        ),
        "given_up_by_cause": _counted(line.get("cause", "unknown") for line in store.given_up),
        "retried": _retried(store),
        "rejections": len(store.tries),
        "rejections_by_constraint": _counted(name for line in store.tries for name in line["rejected"]),
        "by_edit": _by_edit(store),
        "by_type": {
            kind: {
                "questions": types[kind],
                "accepted": (yes := sum(line["edit_type"] == kind for line in store.accepted)),
                "acceptance": _share(yes, types[kind]),
            }
            for kind in QUESTION_TYPES
            if types[kind]
        },
        "types": {kind: _share(types[kind], types.total()) for kind in QUESTION_TYPES},
        "types_paper": {kind: round(share / 100, 4) for kind, share in PAPER_TYPES.get(benchmark, {}).items()} or None,
        "types_said": len(both),
        "types_by_words_alone": len(known) - len(both),
        "types_agree": _share(sum(of["said"] == of["by_words"] for of in both), len(both)),
        "scores": {name: _spread([line["scores"][name] for line in store.accepted]) for name in _score_names(store)},
        "flips": {
            "asked": len(flips),
            "read": len(read),
            "flipped": sum(read),
            "share": _share(sum(read), len(read)),
        },
        "names_target": _share(sum(map(_names_target, store.accepted)), len(store.accepted)),
        "cost": _cost(store, len(store.accepted), decided),
    }


def _names_target(line: Mapping[str, Any]) -> bool:
    """Whether an instruction speaks of the thing that its plan edits, by the last word of the target's name.

    An editor that works from the box does the plan, one that reads does the instruction: where they differ the picture may show
    another edit than the one on record.
    """
    target = line["target"].lower().split()
    return bool(target) and target[-1] in line["instruction"].lower()


def _retried(store: ReadStore) -> dict[str, Any]:
    """Questions that were given up and tried again; the other counts are of their last attempt alone, the cost is of all."""
    again = {line["question_index"] for line in store.retried}
    return {
        "questions": len(again),
        "attempts": len(store.retried),
        "accepted": sum(line["question_index"] in again for line in store.accepted),
        "by_cause": _counted(line["given_up"].get("cause", "unknown") for line in store.retried),
    }


def _by_edit(store: ReadStore) -> dict[str, Any]:
    kinds = sorted({line["edit"] for line in (*store.accepted, *store.tries)})
    found = {}
    for kind in kinds:
        mine = [line for line in store.tries if line["edit"] == kind]
        accepted = sum(line["edit"] == kind for line in store.accepted)
        found[kind] = {
            "tries": accepted + len(mine),
            "accepted": accepted,
            "acceptance": _share(accepted, accepted + len(mine)),
            "rejections_by_constraint": _counted(name for line in mine for name in line["rejected"]),
        }
    return found


def _cost(store: ReadStore, accepted: int, decided: int) -> dict[str, Any]:
    """Calls and tokens: planning, checking for a flip, attempts that were given up and taken up again.

    Tokens are null if the planner left them out of any call.
    """
    planning = [line["usage"] for line in store.answers if "usage" in line]
    checking = [line["planner"]["usage"] for line in store.answers if (line.get("planner") or {}).get("usage")]
    earlier = [known["usage"] for line in store.retried for known in line["answers"] if "usage" in known]

    def total(name: str, usages: Sequence[Mapping[str, Any]]) -> int | None:
        return None if any(usage[name] is None for usage in usages) else sum(usage[name] for usage in usages)

    names = ("calls", "prompt_tokens", "completion_tokens")
    sums = {name: total(name, (*planning, *checking, *earlier)) for name in names}
    return {
        "planning": {name: total(name, planning) for name in names},
        "checking": {name: total(name, checking) for name in names},
        "earlier_attempts": {name: total(name, earlier) for name in names},
        "per_question": {name: _per(value, decided) for name, value in sums.items()},
        "per_accepted": {name: _per(value, accepted) for name, value in sums.items()},
        "edits": accepted + len(store.tries) + sum(len(line["tries"]) for line in store.retried),
    }


def _per(value: int | None, count: int) -> float | None:
    return None if value is None or not count else round(value / count, 2)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda item: (-item[1], item[0])))


def _score_names(store: ReadStore) -> list[str]:
    return list(store.accepted[0]["scores"]) if store.accepted else []


def _spread(values: list[float]) -> dict[str, float]:
    return {"least": min(values), "median": round(median(values), 4), "most": max(values)}


def report_text(reports: Sequence[Mapping[str, Any]]) -> str:
    """The report for people: one column a store, then what belongs to one store alone.

    Args:
        reports: from :func:`summary`, each with ``set_distance`` where it was measured.
    """
    rows: list[tuple[str, list[str]]] = [
        ("", [report["benchmark"] + ("" if report["about"] == "question" else " (other)") for report in reports])
    ]

    def row(name: str, *cells: str) -> None:
        rows.append((name, list(cells)))

    row("questions decided", *(str(r["questions"]) for r in reports))
    row("accepted", *(f"{r['accepted']} ({_percent(r['acceptance'])})" for r in reports))
    row("tries per accepted edit", *("-" if r["tries_per_accepted"] is None else f"{r['tries_per_accepted']:.2f}" for r in reports))
    for title, key in (("no picture because of", "given_up_by_cause"), ("tries rejected by", "rejections_by_constraint")):
        names = dict.fromkeys(name for r in reports for name in r[key])
        for name in names:
            row(f"{title} {name}", *(str(r[key].get(name, 0)) for r in reports))
    for kind in dict.fromkeys(kind for r in reports for kind in r["by_edit"]):
        row(f"edits: {kind}", *(_fraction(r["by_edit"].get(kind), "tries") for r in reports))
    for kind in QUESTION_TYPES:
        row(f"questions: {kind}", *(_fraction(r["by_type"].get(kind), "questions") for r in reports))
    for kind in QUESTION_TYPES:
        row(
            f"share of {kind} (the paper's)",
            *(f"{_percent(r['types'][kind])} ({_percent((r['types_paper'] or {}).get(kind))})" for r in reports),
        )
    row("type: planner and words agree", *(f"{_percent(r['types_agree'])} of {r['types_said']}" for r in reports))
    row("type: by words, no reply read", *(str(r["types_by_words_alone"]) for r in reports))
    row(
        "planner's answer flips",
        *(f"{_percent(r['flips']['share'])} of {r['flips']['read']} ({r['flips']['asked']} asked)" for r in reports),
    )
    row("instruction names the plan's target", *(f"{_percent(r['names_target'])} of {r['accepted']}" for r in reports))
    for name in dict.fromkeys(name for r in reports for name in r["scores"]):
        row(f"C_{name}: least, median", *(_least_median(r["scores"].get(name)) for r in reports))
    for name, words in (("calls", "calls"), ("prompt_tokens", "prompt tokens"), ("completion_tokens", "reply tokens")):
        row(
            f"{words} a question, an accepted edit",
            *(f"{_number(r['cost']['per_question'][name])}, {_number(r['cost']['per_accepted'][name])}" for r in reports),
        )
    if any(r["retried"]["attempts"] for r in reports):
        row("given up, tried again, then accepted", *(_again(r["retried"]) for r in reports))
        row("calls of earlier attempts (counted above)", *(_number(r["cost"]["earlier_attempts"]["calls"], 0) for r in reports))
    row("edits made", *(str(r["cost"]["edits"]) for r in reports))
    if any(r.get("set_distance") for r in reports):
        for key, words in (
            ("fid", "set FID (biased upwards for few)"),
            ("fid_of_halves", "FID of halves of the originals"),
            ("kid", "set KID (unbiased)"),
        ):
            row(words, *(_number((r.get("set_distance") or {}).get(key), 4) for r in reports))
    widths = [max(len(cells[place]) for _, cells in rows) for place in range(len(reports))]
    label = max(len(name) for name, _ in rows)
    return "\n".join(
        "  ".join([name.ljust(label), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))]).rstrip()
        for name, cells in rows
    )


def _again(retried: Mapping[str, Any]) -> str:
    return f"{retried['accepted']} of {retried['questions']} ({retried['attempts']} attempts)"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _fraction(counts: Mapping[str, Any] | None, whole: str) -> str:
    return "-" if counts is None else f"{counts['accepted']} of {counts[whole]}"


def _least_median(spread: Mapping[str, float] | None) -> str:
    return "-" if spread is None else f"{spread['least']:.3f}, {spread['median']:.3f}"
