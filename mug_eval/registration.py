"""Protocols as VLMEvalKit models: joins the games to the class that VLMEvalKit calls (``benchmarks.registered_model``)."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from mug_eval.backbones.catalogue import load_catalogue, open_backbone
from mug_eval.benchmarks.exchange import prediction_text
from mug_eval.benchmarks.registered_model import put_into_vlmevalkit
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.engine.lock import work_dir_lock
from mug_eval.engine.runner import Setting, play_question
from mug_eval.methods import methods
from mug_eval.plan import ModelSetting, Player, model_setting
from mug_eval.question import Answer, Question, Unparsed

_CHAINS = (3, 5, 12)
"""Self-consistency is registered with these numbers of chains; name others in ``models``."""


def every_model() -> list[str]:
    """All methods with all short backbone names."""
    names = [method for name in methods() for method in ([f"sc{k}" for k in _CHAINS] if name == "sc" else [name])]
    return [f"{method}-{backbone}" for method in names for backbone in load_catalogue()]


def register_models(
    models: Iterable[str] | None = None,
    *,
    work_dir: Path | str = "outputs",
    base_url: str | None = None,
    preset: str = "native",
    settings: Sequence[str] = (),
    counterfactuals: Path | str | None = None,
    counterfactual_match: Literal["question", "image"] = "question",
    seed: int = 0,
    concurrency: int | None = None,
    timeout: float = 600.0,
    retries: int = 5,
    patience: float = 900.0,
) -> list[str]:
    """Register models with VLMEvalKit.

    A game is the one that ``run_eval.py`` plays with the same settings: same seeds, same calls, and the same journal if
    the work-dir is the same, so that nothing is asked twice whichever of the two comes first.

    Args:
        models: names, or None for :func:`every_model`; ``<method>-KIND:NAME`` (``mug-openai:my-model``) plays any other model and is
            registered as ``mug-my-model``.
        work_dir: where the journal is; locked from the first game to the end of the process.
        base_url: of an OpenAI-compatible server.
        preset: ``native`` or ``paper``; with ``paper`` and no ``models`` only the backbones that the paper used.
        settings: as after ``--set``.
        counterfactuals: folder of the altered pictures.
        counterfactual_match: ``question`` or ``image``.
        seed: of every draw.
        concurrency: most calls in flight; None: what suits each backbone. VLMEvalKit's ``--api-nproc`` is the number of games at a time.
        timeout: seconds that one call may take.
        retries: further tries of a call that failed.
        patience: seconds that the backbone may stay away.

    Returns:
        The names that were registered.

    Raises:
        UserError: an unknown name or setting, or VLMEvalKit has a model of that name already.
    """
    catalogue = load_catalogue()
    if models is None:
        models = [
            name
            for name in every_model()
            if preset != "paper" or any(name.endswith(f"-{short}") and entry.paper for short, entry in catalogue.items())
        ]
    policy = DispatchPolicy(timeout=timeout, retries=retries, patience=patience, seed=seed)
    room = _Room(Path(work_dir), policy, concurrency, seed)
    registered: list[str] = []
    for name in models:
        player, how = model_setting(name, preset=preset, settings=settings, base_url=base_url)
        folder = None
        if counterfactuals is not None and player.method.uses_counterfactual:
            folder = CounterfactualFolder(Path(counterfactuals), size=how.image_size, match=counterfactual_match)
        registered += put_into_vlmevalkit([player.name], partial(room.open_play, player, how), how.image_size, folder)
    return registered


@dataclass(slots=True)
class _Room:
    """The journal and dispatchers that the registered models of one process share, opened when the first game is played."""

    work_dir: Path
    policy: DispatchPolicy
    concurrency: int | None
    seed: int
    _journal: Journal | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    def open_play(
        self, player: Player, how: ModelSetting, name: str
    ) -> Callable[[Question], Coroutine[Any, Any, Mapping[str, Any]]]:
        """What plays one question. Each model VLMEvalKit builds has an event loop of its own, hence a dispatcher of its own."""
        setting = Setting(player.method, how.config, how.sampling, self.seed)
        dispatchers: list[Dispatcher] = []

        async def play(question: Question) -> Mapping[str, Any]:
            def prediction(index: str, answer: Answer | Unparsed) -> str:
                return prediction_text(answer, question.answer_format)

            if not dispatchers:
                dispatchers.append(self._dispatcher(player, how))
            return await play_question(question, setting, dispatchers[0], prediction)

        return play

    def _dispatcher(self, player: Player, how: ModelSetting) -> Dispatcher:
        if self._journal is None:
            self._open.enter_context(work_dir_lock(self.work_dir, wait=False))
            self._journal = self._open.enter_context(Journal(self.work_dir / "journal.sqlite"))
            atexit.register(self._open.close)
        calls = player.backbone.calls_in_flight if self.concurrency is None else self.concurrency
        model = open_backbone(player.backbone, concurrency=calls, timeout=self.policy.timeout, sampling=how.sampling)
        return Dispatcher(model, self._journal, replace(self.policy, concurrency=calls))
