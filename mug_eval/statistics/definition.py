"""What the scorers count, stated once more in a form that can be resampled ten thousand times.

Every score is a ratio of two sums over questions or over sets of questions (figures), or a mean of such ratios; and no such set
reaches over two clusters. So the sums of each cluster are all that resampling whole clusters needs, and it stays exact: a cluster
that is drawn twice counts as two clusters with other names would in the scorer's own table. ``tests/test_definition.py`` holds
this against the unmodified scorers (vlmeval.dataset.utils.yorn: Hallusion_rating, POPE_rating; multiple_choice: report_acc), and
every run is held against its own ``scores.json`` when it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mug_eval.benchmarks import Task, load_task
from mug_eval.errors import UserError
from mug_eval.statistics.runs import Run
from mug_eval.text_benchmarks.measures import measure, references_in

Floats = NDArray[np.float64]

_SHARE = {(True, False): "Overall", (False, True): "acc", (False, False): "aAcc"}
"""The scorer's column that is the share of right answers, by (multiple choice, rows of several categories)."""

_TOLERANCE = 1e-6
"""Percent by which a score may differ from the scorer's, which adds up in another order."""


@dataclass(frozen=True, slots=True)
class Sums:
    """A run's scores as sums a cluster.

    Attributes:
        names: of the scores, the headline's order; the first is the share of right answers.
        parts: for each score, the ratios of which it is the mean.
        top: clusters x ratios, what is divided.
        bottom: clusters x ratios, by what.
        plain: for each score, whether it is a share of questions that count once each.
    """

    names: tuple[str, ...]
    parts: tuple[tuple[int, ...], ...]
    top: Floats
    bottom: Floats
    plain: tuple[bool, ...]

    def scores(self, top: Floats, bottom: Floats) -> Floats:
        """Scores in percent.

        Args:
            top: ... x ratios, summed over clusters.
            bottom: the same shape.

        Returns:
            ... x scores. A ratio over nothing is 0, as the scorers have it.
        """
        ratios = np.divide(top, bottom, out=np.zeros(np.broadcast(top, bottom).shape), where=bottom != 0)
        return 100 * np.stack([ratios[..., list(part)].mean(axis=-1) for part in self.parts], axis=-1)

    @property
    def values(self) -> Floats:
        """The scores of the run itself, in percent."""
        return self.scores(self.top.sum(axis=0), self.bottom.sum(axis=0))

    @property
    def influence(self) -> Floats:
        """Clusters x scores: what each cluster adds to the difference between a score and its expectation, to first order.

        For a ratio of sums R/N it is (R_c - N_c R/N) / N (the delta method; for a plain share the residuals summed within the
        cluster), in percent. A column adds up to 0.
        """
        bottom = self.bottom.sum(axis=0)
        safe = np.where(bottom != 0, bottom, 1.0)
        ratios = np.where(bottom != 0, self.top.sum(axis=0) / safe, 0.0)
        each = (self.top - self.bottom * ratios) / safe
        return 100 * np.stack([each[:, list(part)].mean(axis=-1) for part in self.parts], axis=-1)


def clustered_error(influence: Floats) -> Floats:
    """The standard error from each cluster's part: (G/(G-1) sum u_c^2)^1/2, the formula of ``intervals.cluster_error``.

    Args:
        influence: clusters x scores.
    """
    count = len(influence)
    if count < 2:
        return np.full(influence.shape[1], np.nan)
    return np.asarray(np.sqrt(np.square(influence).sum(axis=0) * count / (count - 1)))


def sums_of(run: Run) -> Sums:
    """The sums of a run, clusters in sorted order.

    Raises:
        UserError: they do not give what the scorer gave: the files do not belong together, or the scorer is another version.
    """
    task = load_task(run.benchmark)
    try:
        columns = _columns(task, run)
    except (KeyError, IndexError) as error:  # a column of the table, or a part of an index that says which figure it is about
        raise UserError(
            f"{run.folder}: predictions.tsv has not what {task.name}'s scorer counts ({type(error).__name__}: {error}): a file of this "
            "run is damaged; give its command again"
        ) from error
    numbers = dict(task.scores.numbers)
    means = dict(task.scores.means)
    names = (*numbers, *means)
    order = [theirs for theirs in columns if theirs in numbers.values()]
    place = {ours: order.index(theirs) for ours, theirs in numbers.items()}
    parts = tuple((place[name],) if name in place else tuple(place[part] for part in means[name]) for name in names)
    clusters = sorted(set(run.clusters.values()))
    top, bottom = np.zeros((len(clusters), len(order))), np.zeros((len(clusters), len(order)))
    row = {cluster: number for number, cluster in enumerate(clusters)}
    for column, theirs in enumerate(order):
        for cluster, over, under in columns[theirs]:
            top[row[cluster], column] += over
            bottom[row[cluster], column] += under
    # The share of right answers comes first in every headline of a text benchmark.
    share = 0 if task.text is not None else order.index(_SHARE[task.answers == "choice", task.explode is not None])
    once = all(under == 1 for _, _, under in columns[order[share]])
    found = Sums(names, parts, top, bottom, tuple(once and part == (share,) for part in parts))
    said = run.scores["headline"]
    for name, ours in zip(names, found.values, strict=True):
        scorers = said.get(name)
        if scorers is None or not abs(ours - scorers) <= _TOLERANCE:
            raise UserError(
                f"{run.folder}: {name} is {ours:.6f} by items.tsv and predictions.tsv, {scorers} by scores.json: "
                "these files do not belong together; give the run's command again"
            )
    return found


Terms = Sequence[tuple[str, float, float]]
"""(cluster, what is divided, by what): one for each thing that is counted."""


def _columns(task: Task, run: Run) -> dict[str, Terms]:
    """The scorer's columns that are headline numbers, each as terms of a ratio."""
    if task.text is not None:
        return _text_columns(task, run)
    if task.answers == "choice":
        return {"Overall": _share(run, dict.fromkeys(run.rows, 1))}
    if "Hallusion" in task.upstream:
        return {"aAcc": _share(run, dict.fromkeys(run.rows, 1)), "fAcc": _all_right(run, 4), "qAcc": _all_right(run, 5)}
    if "POPE" in task.upstream and task.explode is not None:
        return _detections(run, {index: row[task.explode].count(",") + 1 for index, row in run.rows.items()})
    raise UserError(f"{task.name}: what its scorer counts is not stated in mug_eval/statistics/definition.py")


def _text_columns(task: Task, run: Run) -> dict[str, Terms]:
    """A share of right answers; of open answers also the mean overlap with the references, and conversations without a wrong one."""
    share = _share(run, dict.fromkeys(run.rows, 1))
    if task.answers != "open":
        return {"acc": share}
    try:
        gold = {index: references_in(task.answers, row["answer"]) for index, row in run.rows.items()}
    except (ValueError, KeyError) as error:
        raise UserError(f"{run.folder}: predictions.tsv is damaged ({error}); give the run's command again") from error
    f1 = [(run.clusters[index], measure(task.answers, row["prediction"], gold[index]).f1, 1) for index, row in run.rows.items()]
    right: dict[str, bool] = {}
    for index in run.rows:  # a cluster is a conversation
        right[run.clusters[index]] = right.get(run.clusters[index], True) and run.right[index]
    return {"HEQ-Q": share, "F1": f1, "HEQ-D": [(cluster, every, 1) for cluster, every in right.items()]}


def _share(run: Run, weights: Mapping[str, int]) -> Terms:
    """Right answers among all; a row of several categories counts in each."""
    return [(run.clusters[index], run.right[index] * weight, weight) for index, weight in weights.items()]


def _all_right(run: Run, part: int) -> Terms:
    """Sets of questions of which every one is right: those that share category, set and the given part of the index."""
    sets: dict[tuple[str, str, str], list[str]] = {}
    for index, row in run.rows.items():
        pieces = index.split("_")
        sets.setdefault((row["l2-category"], pieces[3], pieces[part]), []).append(index)
    return [
        (_one(run.clusters[index] for index in members), all(run.right[index] for index in members), 1) for members in sets.values()
    ]


def _one(clusters: Iterable[str]) -> str:
    found = set(clusters)
    if len(found) > 1:
        raise UserError(f"a figure's questions lie in several clusters ({', '.join(sorted(found))}): items.tsv is damaged")
    return found.pop()


def _detections(run: Run, weights: Mapping[str, int]) -> dict[str, Terms]:
    """Precision, recall and F1 = 2 TP / (2 TP + FP + FN) of the answer Yes; an answer that is none counts as No."""
    precision, recall, f1 = [], [], []
    for index, weight in weights.items():
        true, said = run.rows[index]["answer"] == "Yes", run.rows[index]["prediction"] == "Yes"
        cluster, both = run.clusters[index], weight * (true and said)
        precision.append((cluster, both, weight * said))
        recall.append((cluster, both, weight * true))
        f1.append((cluster, 2 * both, weight * (true + said)))
    return {"acc": _share(run, weights), "Overall": f1, "precision": precision, "recall": recall}
