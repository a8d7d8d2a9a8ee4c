"""Is an edited picture good enough to be I-? The paper's three scores and rule (arXiv 2511.11182), and floors of ours.

Accepted if ``alpha * C_vs + beta * C_sc + gamma * C_na >= c`` and each floor holds. The paper gives neither the weights nor c, nor a form
of FID for one picture; what stands here was chosen by ``bench/constraint_study.py`` (docs/counterfactuals.md, "Constraints").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from mug_eval.counterfactual.change import Box, measure
from mug_eval.counterfactual.features import Embedding, Features, Floats, Picture
from mug_eval.counterfactual.frechet import frechet_distances
from mug_eval.errors import UserError

DECIMALS = 4
"""Scores are rounded before they are judged and recorded: a network in float32 gives other last digits in a batch than alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An original, its edit, and where the edit was to happen.

    Attributes:
        before: I+, (height, width, 3), RGB bytes.
        after: I-, of the same size.
        boxes: (left, top, right, bottom) in pixels: the target's, and the place of a moved or added thing.
    """

    before: Picture
    after: Picture
    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Scores:
    """What was measured of one pair. All are better the higher, and at most 1.

    Attributes:
        vs: C_vs, visual similarity: cosine of the pooled vectors of a vision transformer; -1..1.
        sc: C_sc, semantic consistency: cosine of CLIP's picture vectors; -1..1.
        na: C_na, naturalness: :func:`naturalness` of the spatial features; in (0, 1].
        change: C_change, the edit did something inside the boxes (:mod:`mug_eval.counterfactual.change`).
        local: C_local, nothing else changed.
        seam: C_seam, no outline of a pasted rectangle.
    """

    vs: float
    sc: float
    na: float
    change: float
    local: float
    seam: float


@dataclass(frozen=True, slots=True)
class Rule:
    """When a pair is accepted. What c means depends on the features: :func:`default_rule` gives theirs.

    Attributes:
        alpha: weight of C_vs.
        beta: weight of C_sc.
        gamma: weight of C_na.
        c: what the weighed sum must reach.
        least_vs: floor of C_vs alone; -1 is none. So for the others.
        least_sc: floor of C_sc alone.
        least_na: floor of C_na alone.
        least_change: floor of C_change.
        least_local: floor of C_local.
        least_seam: floor of C_seam.
    """

    alpha: float = 1 / 3
    beta: float = 1 / 3
    gamma: float = 1 / 3
    c: float = 0.53
    least_vs: float = -1.0
    least_sc: float = -1.0
    least_na: float = 0.0
    least_change: float = 0.05
    least_local: float = 0.995
    least_seam: float = 0.4

    def __post_init__(self) -> None:
        """Raises UserError for what cannot be meant."""
        weights = (self.alpha, self.beta, self.gamma)
        if not all(np.isfinite(getattr(self, field.name)) for field in fields(self)):
            raise UserError("the constraints' weights and floors must be numbers, none infinite or NaN")
        if min(weights) < 0 or sum(weights) == 0:
            raise UserError(f"alpha, beta and gamma must not be negative, nor all 0; they are {weights}")
        if self.c > sum(weights):
            raise UserError(
                f"no edit can reach c = {self.c}: C_vs, C_sc and C_na are at most 1, so their sum is at most {sum(weights)}"
            )
        for field in fields(self):
            if field.name.startswith("least_") and getattr(self, field.name) > 1:
                raise UserError(f"no edit can reach {field.name} = {getattr(self, field.name)}: every score is at most 1")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a pair.

    Attributes:
        accepted: whether every constraint holds.
        total: the weighed sum.
        rejected: the constraints that do not hold: ``sum`` and names of fields of :class:`Scores`, in the rule's order.
        reason: one line for people; empty if accepted.
    """

    accepted: bool
    total: float
    rejected: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Judges:
    """Which features judge what. The same object may stand in more than one place; it then sees each picture once.

    Attributes:
        visual: for C_vs; in the paper a vision transformer of timm.
        semantic: for C_sc; in the paper a CLIP of open_clip.
        natural: for C_na.
    """

    visual: Features
    semantic: Features
    natural: Features

    def provenance(self) -> dict[str, dict[str, str]]:
        """Who judged, for the store: by role, name and hash."""
        roles = {"visual": self.visual, "semantic": self.semantic, "natural": self.natural}
        return {role: {"name": features.name, "sha256": features.sha256} for role, features in roles.items()}


MEASURED_C = {"handmade": 0.83, "reference": 0.89, "efficientnet-lite0": 0.53}
"""c by the features that judge all three, from ``bench/constraint_study.py``: as strict as costs one in a hundred known-good edits."""


def default_rule(judges: Judges) -> Rule:
    """The rule for these features.

    Floors are the same for all, since they need no features. c is the measured one where one kind of features judges all three and was
    measured (:func:`is_measured`); for others it is the one of EfficientNet-Lite0, the only measured one trained on photographs, which is
    lenient: the study, given these features, measures theirs.
    """
    return Rule(c=MEASURED_C[judges.visual.name] if is_measured(judges) else MEASURED_C["efficientnet-lite0"])


def is_measured(judges: Judges) -> bool:
    """Whether the default c was measured for these features."""
    names = {judges.visual.name, judges.semantic.name, judges.natural.name}
    return len(names) == 1 and names <= MEASURED_C.keys()


def judge(scores: Scores, rule: Rule) -> Verdict:
    """Hold scores against a rule."""
    total = round(rule.alpha * scores.vs + rule.beta * scores.sc + rule.gamma * scores.na, DECIMALS)
    lost = {"vs": rule.alpha * (1 - scores.vs), "sc": rule.beta * (1 - scores.sc), "na": rule.gamma * (1 - scores.na)}
    said: dict[str, str] = {}
    if total < rule.c:
        most = max(lost, key=lambda name: lost[name])
        said["sum"] = f"alpha C_vs + beta C_sc + gamma C_na = {total:.4g} < {rule.c:.4g} (C_{most} takes the most from it)"
    for name, score in asdict(scores).items():
        least = getattr(rule, f"least_{name}")
        if score < least:
            said[name] = f"C_{name} = {score:.4g} < {least:.4g}"
    return Verdict(not said, total, tuple(said), "; ".join(said.values()))


def naturalness(distance: Floats, spread: Floats) -> Floats:
    """C_na from a Frechet distance: ``1 / (1 + distance / spread)``, 1 for equal pictures, falling towards 0, never 0.

    Args:
        distance: of the spatial features of I+ and I-.
        spread: the mean of both pictures' total variance, which takes the features' own scale out of it.
    """
    return np.asarray(1 / (1 + distance / np.maximum(spread, 1e-9)), np.float64)


def cosines(first: Floats, second: Floats) -> Floats:
    """Cosines of vectors, row by row; 0 where one of the two is the zero vector.

    Args:
        first: (n, d).
        second: (n, d).
    """
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray(np.clip((first * second).sum(1) / np.where(lengths > 0, lengths, 1), -1, 1), np.float64)


def score(pairs: Sequence[Pair], judges: Judges, batch: int = 16) -> list[Scores]:
    """Measure many pairs in one pass.

    Pictures are embedded ``batch`` at a time, each once however often it comes up (the tries for one question share I+), and the
    Frechet distances of a batch are decomposed together.

    Args:
        pairs: what to measure.
        judges: by which features.
        batch: pictures at a time.

    Raises:
        ValueError: a pair's sizes differ, or no box lies in the picture.
    """
    if not pairs:
        return []
    changes = [measure(pair.before, pair.after, pair.boxes) for pair in pairs]
    numbers: dict[tuple[tuple[int, ...], bytes], int] = {}
    pictures: list[Picture] = []
    places = []
    for picture in (*(pair.before for pair in pairs), *(pair.after for pair in pairs)):
        number = numbers.setdefault((picture.shape, picture.tobytes()), len(pictures))
        if number == len(pictures):
            pictures.append(picture)
        places.append(number)
    first, second = np.array(places[: len(pairs)]), np.array(places[len(pairs) :])
    seen: dict[int, Embedding] = {}
    for features in (judges.visual, judges.semantic, judges.natural):
        if id(features) not in seen:
            seen[id(features)] = _embed(features, pictures, batch)
    vs, sc = (cosines(seen[id(f)].pooled[first], seen[id(f)].pooled[second]) for f in (judges.visual, judges.semantic))
    patches = seen[id(judges.natural)].patches.reshape(len(pictures), -1, seen[id(judges.natural)].patches.shape[-1])
    na = np.concatenate(
        [natural(patches[first[i : i + batch]], patches[second[i : i + batch]]) for i in range(0, len(pairs), batch)]
    )
    return [
        Scores(*(round(float(value), DECIMALS) for value in (v, s, n, change.change, change.local, change.seam)))
        for v, s, n, change in zip(vs, sc, na, changes, strict=True)
    ]


def natural(before: Floats, after: Floats) -> Floats:
    """C_na of pairs: the Frechet distance between the spatial features of I+ and of I-, as :func:`naturalness`.

    Args:
        before: (n, places, d).
        after: (n, places, d).
    """
    spread = (before.var(1, ddof=1).sum(-1) + after.var(1, ddof=1).sum(-1)) / 2
    return naturalness(frechet_distances(before, after), spread)


def patch_change(features: Features, pair: Pair) -> Floats:
    """Where the change is, by the features: 1 - cosine at each place, (rows, columns). For contact sheets and to look at an edit."""
    patches = features.patches([pair.before, pair.after])
    _, rows, columns, d = patches.shape
    same = cosines(patches[0].reshape(-1, d), patches[1].reshape(-1, d))
    return np.asarray(1 - same.reshape(rows, columns), np.float64)


def _embed(features: Features, pictures: Sequence[Picture], batch: int) -> Embedding:
    parts = [features.embed(pictures[start : start + batch]) for start in range(0, len(pictures), batch)]
    return Embedding(np.concatenate([part.pooled for part in parts]), np.concatenate([part.patches for part in parts]))
