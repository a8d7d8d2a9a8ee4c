"""Questions in, pictures I- out: plan, edit, judge, try again, decide; every question ends in the store or is owed.

Planning (calls), editing and judging (threads) overlap: while one question's picture is edited others are planned. What becomes of a
question depends on nothing but its own replies and seeds, so that the store is the same at any concurrency.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np
from PIL import Image

from mug_eval.answers import parse_answer
from mug_eval.chat import BackboneError, MisconfiguredError, RefusedError
from mug_eval.counterfactual import constraints
from mug_eval.counterfactual.constraints import Pair
from mug_eval.counterfactual.editors.editor import Edit, EditFailed, as_picture, run_edits
from mug_eval.counterfactual.pixel_budget import PixelBudget
from mug_eval.counterfactual.plan import Box, EditPlan
from mug_eval.counterfactual.planner import Chosen, NoPlan, Plans, QuestionType, Survey, follows, plan_json, survey
from mug_eval.counterfactual.stations import Station
from mug_eval.counterfactual.store import Accepted, Store, Try, png
from mug_eval.counterfactual.unrelated import unrelated_plans
from mug_eval.counterfactual.whereabouts import where
from mug_eval.counterfactual.workshop import Workshop
from mug_eval.engine.table import GameTable
from mug_eval.errors import QuestionError, RunStopped, UserError
from mug_eval.images import load_image
from mug_eval.methods.conversation import turn
from mug_eval.question import Answer, Question
from mug_eval.seeds import derive_seed, generator

NAME = "counterfactual"
"""Names the draws, as a method's name does."""
JUDGED_AT_ONCE = 16


class PictureSource(Protocol):
    """What building needs of a benchmark."""

    @property
    def name(self) -> str:
        """The benchmark's name."""
        ...

    @property
    def indices(self) -> Sequence[str]:
        """The rows to be decided, in the dataset's order."""
        ...

    def question(self, index: str) -> Question:
        """A row as a question, its pictures at their own size. Called in a thread, one call at a time."""
        ...

    def pictures(self, index: str) -> Sequence[tuple[int, bytes]]:
        """Of each picture of the question, in order: which of the row's it is, and its bytes. Called likewise."""
        ...


@dataclass(frozen=True, slots=True)
class Owed:
    """A question that could not be decided, and why, in one line; the same command tries it again."""

    index: str
    reason: str


async def build(
    source: PictureSource,
    store: Store,
    shop: Workshop,
    on_done: Callable[[Mapping[str, Any] | Owed], None] = lambda _: None,
) -> list[Owed]:
    """Decide every question of a benchmark that the store has not decided yet.

    Args:
        source: the benchmark.
        store: takes what is decided, in any order; closing it is the caller's.
        shop: who takes part.
        on_done: told of every decision (``{"answer": {"value": ...}}`` where a picture was accepted, as progress counts) and debt.

    Returns:
        The questions that the planner's server kept failing at, in the dataset's order.

    Raises:
        UserError: no request to the planner, or no edit by the editor, will work until the user mends something.
        RunStopped: the build cannot go on; what is decided is kept, and replies that were on their way are recorded.
    """
    todo = [index for index in source.indices if not store.decided(index)]
    opener, keeper = (ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("questions", "store"))
    editing: Station[Edit, Image.Image | EditFailed] = Station(
        "editor", lambda edits: run_edits(shop.editor, edits), shop.editor.batch, shop.editor_threads
    )
    judging: Station[Pair, constraints.Scores] = Station(
        "judge", lambda pairs: constraints.score(pairs, shop.judges), JUDGED_AT_ONCE
    )
    try:
        async with editing, judging:
            line = _Line(source, store, shop, editing, judging, opener, keeper, on_done, iter(todo))
            await _all_or_first_error([line.work() for _ in range(min(shop.questions_at_once, len(todo)))])
    except (asyncio.CancelledError, MisconfiguredError) as error:
        await shop.dispatcher.settle(patiently=False)
        if isinstance(error, MisconfiguredError):
            raise UserError(_one_line(error)) from error
        raise
    except BaseException:
        await shop.dispatcher.settle(patiently=True)
        raise
    finally:
        opener.shutdown(wait=False, cancel_futures=True)
        keeper.shutdown(wait=True)  # what is being written is soon written
    return [line.owed[index] for index in source.indices if index in line.owed]


async def _all_or_first_error(work: Sequence[Any]) -> None:
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class _Subject:
    """One question in work."""

    question: Question
    pictures: Sequence[tuple[int, bytes]]
    known: Survey
    rejected: list[Try] = field(default_factory=list)
    chosen: Chosen | None = None

    @property
    def index(self) -> str:
        return self.question.index

    @property
    def original(self) -> tuple[int, bytes]:
        return self.pictures[self.known.picture]


@dataclass(slots=True)
class _Line:
    """One pass over a benchmark, shared by as many workers as questions are in work."""

    source: PictureSource
    store: Store
    shop: Workshop
    editing: Station[Edit, Image.Image | EditFailed]
    judging: Station[Pair, constraints.Scores]
    opener: ThreadPoolExecutor
    keeper: ThreadPoolExecutor
    on_done: Callable[[Mapping[str, Any] | Owed], None]
    todo: Iterator[str]
    owed: dict[str, Owed] = field(default_factory=dict)
    pixels: PixelBudget = field(default_factory=PixelBudget)

    async def work(self) -> None:
        """Take the next question until there is none."""
        for index in self.todo:
            try:
                accepted = await self._decide(index)
            except (MisconfiguredError, RunStopped, UserError):
                raise
            except BackboneError as error:
                self.owed[index] = owed = Owed(index, _one_line(error))
                self.on_done(owed)
                continue
            except Exception as error:
                error.add_note(f"while making the counterfactual picture of question {index} of {self.source.name}")
                raise
            self.on_done({"answer": {"value": "accepted"} if accepted else {}})

    async def _decide(self, index: str) -> bool:
        """Whether there is a picture; it, or why there is none, is in the store when this returns."""
        loop = asyncio.get_running_loop()
        try:
            question = await loop.run_in_executor(self.opener, self.source.question, index)
            pictures = await loop.run_in_executor(self.opener, self.source.pictures, index)
        except QuestionError as error:
            await self._give_up(index, "unreadable", _one_line(error))
            return False
        table = GameTable(question, NAME, self.shop.sampling, self._seed(index), self.shop.dispatcher)
        subject: _Subject | None = None
        try:
            known = await survey(question, table, self.shop.frame)
            subject = _Subject(question, pictures, known)
            async with self.pixels.hold(known.shown.width * known.shown.height):
                return await self._try_all(subject, table)
        except NoPlan as error:
            await self._give_up(index, error.cause, error.reason, subject, table, error.type)
        except RefusedError as error:
            await self._give_up(index, "planner_refused", f"the planner refuses: {_one_line(error)}", subject, table)
        finally:
            table.close()
        return False

    def _seed(self, index: str) -> int:
        """Of the question's draws: others for one that was given up and is tried again, or it would end as it did."""
        attempt = self.store.attempt(index)
        return derive_seed(self.shop.seed, "attempt", attempt) if attempt else self.shop.seed

    async def _try_all(self, subject: _Subject, table: GameTable) -> bool:
        """Plan by plan, seed by seed, until a picture is accepted or the effort is spent."""
        effort = self.shop.effort
        next_plan = self._plans(subject, table)
        picture = await asyncio.to_thread(as_picture, subject.original[1])
        seen: dict[EditPlan, bool] = {}
        for _ in range(effort.plans):
            try:
                chosen = await next_plan(subject.rejected[-1].reason if subject.rejected else "")
            except NoPlan as error:
                if not subject.rejected:
                    raise
                last = subject.rejected[-1].reason
                await self._give_up(subject.index, _cause(subject), f"{last}; and {error.reason}", subject, table)
                return False
            if not seen.get(chosen.plan, True):  # no other plan, and for this one the seed makes no difference
                reason = f"{subject.rejected[-1].reason}; and the planner has no other plan"
                await self._give_up(subject.index, _cause(subject), reason, subject, table)
                return False
            subject.chosen = chosen
            results: set[tuple[str, str]] = set()
            for _ in range(effort.tries):
                seed = derive_seed(
                    self._seed(subject.index), self.source.name, subject.index, NAME, "edit", len(subject.rejected) + 1
                )
                edited = await self._try(subject, chosen, picture, seed)
                if edited is not None:
                    await self._accept(subject, chosen, seed, *edited, table)
                    return True
                result = subject.rejected[-1].picture, subject.rejected[-1].reason
                if result in results:
                    break  # the editor gives the same whatever the seed
                results.add(result)
            seen[chosen.plan] = len(results) > 1
        tries = f"{len(subject.rejected)} tries" if len(subject.rejected) > 1 else "1 try"
        await self._give_up(subject.index, _cause(subject), f"{tries}, the last: {subject.rejected[-1].reason}", subject, table)
        return False

    def _plans(self, subject: _Subject, table: GameTable) -> Callable[[str], Awaitable[Chosen]]:
        if self.shop.about == "question":
            return Plans(subject.question, table, self.shop.frame, subject.known, self.shop.editor.inventive).next
        rng = generator(self._seed(subject.index), self.source.name, subject.index, NAME, "unrelated")
        unrelated = unrelated_plans(subject.question, subject.known, rng)

        async def next_unrelated(why: str) -> Chosen:
            return next(unrelated)

        return next_unrelated

    async def _try(
        self, subject: _Subject, chosen: Chosen, picture: Image.Image, seed: int
    ) -> tuple[Image.Image, constraints.Scores, tuple[Box, ...]] | None:
        """One edit and its verdict; None if there is no picture that could be used, which is then among the rejected."""
        plan = chosen.plan
        edited = await self.editing.do(Edit(picture, plan, seed))
        number = len(subject.rejected) + 1
        what = (number, seed, plan.kind, plan.target, plan.instruction)
        if isinstance(edited, EditFailed):
            subject.rejected.append(Try(*what, ("editor",), edited.reason))
            return None
        boxes = where(self.shop.editor, picture, plan, seed)
        scores = await self.judging.do(Pair(np.asarray(picture), np.asarray(edited), boxes))
        verdict = constraints.judge(scores, self.shop.rule)
        if verdict.accepted:
            return edited, scores, boxes
        shown = hashlib.sha256(edited.tobytes()).hexdigest()
        subject.rejected.append(Try(*what, verdict.rejected, verdict.reason, asdict(scores), shown))
        return None

    async def _accept(
        self,
        subject: _Subject,
        chosen: Chosen,
        seed: int,
        edited: Image.Image,
        scores: constraints.Scores,
        boxes: tuple[Box, ...],
        table: GameTable,
    ) -> None:
        flip = await self._flip(subject, edited) if self.shop.effort.check_flip else None
        position, data = subject.original
        accepted = Accepted(
            question_index=subject.index,
            image_sha256=hashlib.sha256(data).hexdigest(),
            position=position,
            edit=chosen.plan.kind,
            edit_type=subject.known.type.kind,
            target=chosen.plan.target,
            instruction=chosen.plan.instruction,
            boxes=boxes,
            editor=self.shop.editor.name,
            planner=self.shop.planner,
            seed=seed,
            tries=len(subject.rejected) + 1,
            scores=asdict(scores),
        )
        record = self._record(subject, table, flip)
        await asyncio.get_running_loop().run_in_executor(
            self.keeper, self.store.accept, accepted, edited, tuple(subject.rejected), record
        )

    async def _give_up(
        self,
        index: str,
        cause: str,
        reason: str,
        subject: _Subject | None = None,
        table: GameTable | None = None,
        of_type: QuestionType | None = None,
    ) -> None:
        facts: dict[str, Any] = {"cause": cause}
        rejected: Sequence[Try] = ()
        record: dict[str, Any] | None = None
        if subject is not None and table is not None:
            rejected = tuple(subject.rejected)
            facts["edit_type"] = subject.known.type.kind
            if subject.chosen is not None:
                facts |= {"edit": subject.chosen.plan.kind, "target": subject.chosen.plan.target}
            record = self._record(subject, table, None)
        elif table is not None:
            record = {"usage": _usage([table])}
            if of_type is not None:
                facts["edit_type"] = of_type.kind
                record["type"] = of_type.record

        def write() -> None:
            self.store.give_up(index, reason, rejected, record, **facts)

        await asyncio.get_running_loop().run_in_executor(self.keeper, write)

    async def _flip(self, subject: _Subject, edited: Image.Image) -> dict[str, Any]:
        """The planner's own answer before and after: an edit that changes no answer tests nothing.

        The call over I+ is the one that the method ``direct`` makes, word for word and seed for seed, so that it is asked once.
        """
        question, shop = subject.question, self.shop
        after = await asyncio.to_thread(lambda: load_image(png(edited)))
        altered = tuple(after if part == subject.known.shown else part for part in question.prompt)
        table = GameTable(question, "direct", shop.sampling, shop.seed, shop.dispatcher)
        try:
            replies = await asyncio.gather(
                table.ask("solver", turn(question.prompt)), table.ask("solver over the altered picture", turn(altered))
            )
        except RefusedError as error:
            return {"refused": _one_line(error), "usage": _usage([table])}
        finally:
            table.close()
        said = [parse_answer(reply.text, question.answer_format) for reply in replies]
        values = [answer.value if isinstance(answer, Answer) else None for answer in said]
        flips = None if None in values else values[0] != values[1]
        return {"before": values[0], "after": values[1], "flips": flips, "usage": _usage([table])}

    def _record(self, subject: _Subject, table: GameTable, flip: dict[str, Any] | None) -> dict[str, Any]:
        """What is known beside the decision, for ``answers.jsonl``, which no game opens."""
        known = subject.known
        of_type, chosen = known.type, subject.chosen
        return {
            "type": of_type.record,
            "graph": {
                "things": [{"name": t.name, "attributes": list(t.attributes), "box": list(t.box)} for t in known.graph.things],
                "relations": [list(relation) for relation in known.graph.relations],
            },
            "plan": None if chosen is None else plan_json(chosen),
            "answer_said": None if chosen is None else chosen.answer,
            "answer_follows": None if chosen is None else follows(subject.question, of_type.kind, chosen, known.graph),
            "planner": flip,
            "usage": _usage([table]),
        }


def _cause(subject: _Subject) -> str:
    """``no_edit`` where the editor never gave a picture, else ``rejected``."""
    return "no_edit" if all(one.rejected == ("editor",) for one in subject.rejected) else "rejected"


def _usage(tables: Sequence[GameTable]) -> dict[str, Any]:
    """Calls and tokens; null where the planner did not say for one of them. No seconds: a store holds no time."""
    calls = [call for table in tables for call in table.calls]
    tokens = {
        name: None if any(call[name] is None for call in calls) else sum(call[name] for call in calls)
        for name in ("prompt_tokens", "completion_tokens")
    }
    return {"calls": len(calls), **tokens}


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
