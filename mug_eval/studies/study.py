"""What a study is: arms that are played, and how their results are read. Data, and nothing that plays or reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from mug_eval.ablations import ABLATIONS
from mug_eval.plan import find_method

if TYPE_CHECKING:
    from mug_eval.studies.finished import Finished
    from mug_eval.studies.outcome import Outcome

Format = Literal["any", "POPE", "HallusionBench"]
PUBLISHED = ("MMMU_DEV_VAL", "MMStar", "HallusionBench", "POPE")
"""The benchmarks of the MUG paper."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to play; with a backbone and a benchmark it is a run.

    Attributes:
        label: its name in the table.
        method: as in ``--model <method>-<backbone>``: ``mug``, ``sc12``.
        settings: fields of the method that it sets.
        ablation: of MUG, by name.
        x: its place on the figure's axis, where that has numbers.
    """

    label: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    ablation: str | None = None
    x: float | None = None

    def model(self, backbone: str) -> str:
        """The model as ``mug-eval run`` names it."""
        return f"{self.method}-{backbone}" + (f"@{self.ablation}" if self.ablation else "")

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that are not the method's own: an arm that sets a default is the plain method, and shares its folder."""
        method, fixed = find_method(self.method)
        given = {**fixed, **(ABLATIONS[self.ablation] if self.ablation else {})}
        defaults = {one.name: one.default for one in fields(method.config) if one.default is not MISSING}
        return {name: value for name, value in self.settings.items() if given.get(name, defaults.get(name, MISSING)) != value}

    @property
    def configuration(self) -> dict[str, Any]:
        """All fields that it sets, those of its ablation among them."""
        return {**(ABLATIONS[self.ablation] if self.ablation else {}), **self.settings}

    @property
    def suffix(self) -> str:
        """What the folder's name has beside the model's: ``@agents-4``; nothing for the plain method."""
        words = [f"{name}-{value}" for name, value in sorted(self.changed.items())]
        return f"@{re.sub(r'[^A-Za-z0-9._-]+', '-', '_'.join(words))}" if words else ""

    @property
    def needs_pictures(self) -> bool:
        """Whether it is played with altered pictures."""
        return find_method(self.method)[0].uses_counterfactual and self.ablation not in ("no-counterfactual", "no-undercover")


@dataclass(frozen=True, slots=True)
class Study:
    """One study.

    Attributes:
        name: as in ``mug-eval study NAME``.
        summary: one line for ``mug-eval study list``.
        arms: what is played.
        read: finished runs -> its tables and figure.
        baseline: label of the arm that the others are compared with; None where nothing is compared.
        benchmarks: that are played if the user names none.
        accepts: in which format a benchmark must be.
        source: of the idea: ``paper``, or ``ours``.
    """

    name: str
    summary: str
    arms: tuple[Arm, ...]
    read: Callable[[Finished], Outcome]
    baseline: str | None = None
    benchmarks: tuple[str, ...] = PUBLISHED
    accepts: Format = "any"
    source: Literal["paper", "ours"] = "paper"
