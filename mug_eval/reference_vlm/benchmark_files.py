"""Benchmarks of drawn scenes in VLMEvalKit's own formats, any size by seed, with a counterfactual picture for every question."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write, cannot_write
from mug_eval.errors import UserError
from mug_eval.reference_vlm.dialogs import more_asked
from mug_eval.reference_vlm.drawing import png
from mug_eval.reference_vlm.oracle import answer_over
from mug_eval.reference_vlm.questions import (
    KINDS,
    Asked,
    Kind,
    Query,
    absent,
    ask_choice,
    ask_open,
    ask_yes_no,
    draw_query,
    edit_for,
    value_of,
)
from mug_eval.reference_vlm.scenes import SIGN, Edit, Scene, Split, draw_scene, scene_seed
from mug_eval.seeds import generator

COUNTERFACTUALS = "counterfactuals"
_NEGATIVES = ("random", "popular", "adversarial")


@dataclass(slots=True)
class _Table:
    """Rows of one TSV and the altered pictures that belong to them."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    altered: list[tuple[Any, int, bytes, bytes, Edit, str, str]] = field(default_factory=list)
    """(index, position, original PNG, altered PNG, edit, true answer before, after)"""


@dataclass(frozen=True, slots=True)
class ScenesBenchmark:
    """One benchmark that can be written.

    Attributes:
        name: of the task and of the file, ``<name>.tsv``; ``tasks/<name>.yaml`` says in which benchmark's format it is.
        fill: (questions, scenes) -> the table.
    """

    name: str
    fill: Callable[[int, Iterator[tuple[Scene, Any]]], _Table]


def write_benchmarks(
    out: Path, questions: int, seed: int, split: Split = "test", names: Collection[str] | None = None
) -> dict[str, Path]:
    """Write the tables and the folder of counterfactual pictures with its manifest.

    Args:
        out: folder; made if missing. Files of the same names are replaced.
        questions: rows of each table, at least 12; ScenesHallusion has whole sets of four, so up to three fewer.
        seed: of scenes and questions; the same seed gives the same bytes with the same version of Pillow.
        split: whose scenes. The reference model was trained on ``train``.
        names: which of the four; None for all.

    Returns:
        Name -> the table's file.

    Raises:
        UserError: fewer than 12 questions.
        RunStopped: the disk is full or cannot be written.
    """
    if questions < 12:
        raise UserError(f"--questions {questions}: too few for the scorers' categories, give at least 12")
    manifest: list[str] = []
    written = {}
    for benchmark in BENCHMARKS:
        if names is not None and benchmark.name not in names:
            continue
        table = benchmark.fill(questions, _scenes(split, seed, benchmark.name))
        for index, position, original, altered, edit, before, after in table.altered:
            file = f"{benchmark.name}_{index}_{position + 1}.png"
            _write_picture(out / COUNTERFACTUALS / file, altered)
            entry = {
                "image_sha256": hashlib.sha256(original).hexdigest(),
                "question_index": index,
                "file": file,
                "file_sha256": hashlib.sha256(altered).hexdigest(),
                "edit": edit.kind,
                "target": edit.target,
                "instruction": edit.instruction,
                "answer_before": before,
                "answer_after": after,
            }
            manifest.append(json.dumps(entry))
        written[benchmark.name] = out / f"{benchmark.name}.tsv"
        atomic_write(written[benchmark.name], _tsv(table.rows))
    # The manifest last: a folder with a manifest is whole.
    atomic_write(out / COUNTERFACTUALS / "manifest.jsonl", "\n".join(manifest) + "\n")
    return written


def _write_picture(path: Path, content: bytes) -> None:
    """Not flushed to the disk one by one: the manifest, written last, says that they are all there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise cannot_write(path, error) from error


def _tsv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    columns = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(text, columns, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _scenes(split: Split, seed: int, name: str) -> Iterator[tuple[Scene, Any]]:
    """Scenes without end, each with the generator of its questions. Every benchmark has scenes of its own."""
    start = generator("benchmark", name).randrange(10**6) * 10**6
    number = start
    while True:
        yield draw_scene(scene_seed(split, seed, number)), generator("questions", split, seed, name, number)
        number += 1


def _cell(picture: bytes) -> str:
    return base64.b64encode(picture).decode()


def _pope(questions: int, scenes: Iterator[tuple[Scene, Any]]) -> _Table:
    """As in POPE: of six questions about a picture three are about what is there; the others are of one category each."""
    table = _Table()
    while True:
        scene, rng = next(scenes)
        # Of a kind that is there once, so that an edit of one thing changes the answer.
        shapes = [(t.colour, t.shape) for t in scene.things if t.shape != SIGN and len(scene.named(t.colour, t.shape)) == 1]
        if not shapes:
            continue
        picture = png(scene)
        present = [rng.choice(shapes) for _ in _NEGATIVES]
        missing = [absent(scene, how, rng) for how in _NEGATIVES]
        for category, pair in zip(_NEGATIVES, zip(present, missing, strict=True), strict=True):
            for about in pair:
                query = Query("exists", (about,))
                asked, edit = ask_yes_no(query, scene, rng), edit_for(query, scene, rng)
                row = {"question": asked.text, "answer": asked.gold(scene), "category": category, "image": _cell(picture)}
                index = len(table.rows)
                if index == questions:
                    return table
                table.rows.append({"index": index, **row})
                _alter(table, index, asked, scene, picture, edit)


def _alter(table: _Table, index: Any, asked: Asked, scene: Scene, picture: bytes, edit: Edit | None) -> None:
    if edit is not None:
        before, after = answer_over(asked, (scene,)), answer_over(asked, (edit.scene,))
        table.altered.append((index, 0, picture, png(edit.scene), edit, before, after))


def _drawn(kind: Kind, scenes: Iterator[tuple[Scene, Any]]) -> tuple[Query, Scene, Edit, Any]:
    """The next scene that has a question of the kind with an edit that changes its answer."""
    for scene, rng in scenes:
        query = draw_query(kind, scene, rng)
        edit = None if query is None else edit_for(query, scene, rng)
        if query is not None and edit is not None:
            return query, scene, edit, rng
    raise AssertionError("unreachable: scenes have no end")


def _mcq(questions: int, scenes: Iterator[tuple[Scene, Any]]) -> _Table:
    """As in MMStar: options and a category, here the question type."""
    table = _Table()
    for index in range(questions):
        kind = KINDS[index % len(KINDS)]
        query, scene, edit, rng = _drawn(kind, scenes)
        asked, picture = ask_choice(query, scene, rng, edit.scene), png(scene)
        table.rows.append({"index": index, "question": asked.text, **_options(asked), **_answer(asked, scene, kind, picture)})
        _alter(table, index, asked, scene, picture, edit)
    return table


def _options(asked: Asked) -> dict[str, str]:
    return dict(zip("ABCD", [*asked.options, "", "", ""], strict=False))


def _answer(asked: Asked, scene: Scene, category: str, picture: bytes) -> dict[str, Any]:
    return {"answer": answer_over(asked, (scene,)), "category": category, "image": _cell(picture)}


def _hallusion(questions: int, scenes: Iterator[tuple[Scene, Any]]) -> _Table:
    """As in HallusionBench: sets of two figures, original and edited, with the same two questions; the edit changes the first's answer.

    The second asks for something else, so that a model that sees the edit everywhere is wrong there. Each figure is the other's
    counterfactual.
    """
    table = _Table()
    for number in range(questions // 4):
        kind = KINDS[number % len(KINDS)]
        while True:
            query, scene, edit, rng = _drawn(kind, scenes)
            second = draw_query(rng.choice(KINDS), scene, rng)
            if second is not None and second != query and value_of(second, edit.scene) == value_of(second, scene):
                break
        asked = (_after_edit(query, scene, edit, rng), ask_yes_no(second, scene, rng))
        figures = (scene, edit.scene)
        back = Edit(scene, edit.kind, edit.target, f"Undo: {edit.instruction}")
        for figure, (shown, other_way) in enumerate(zip(figures, (edit, back), strict=True)):
            picture = png(shown)
            for place, question in enumerate(asked):
                index = f"VS_{kind}_{figure + 1}_{number}_{figure}_{place}"
                labels = {"category": "VS", "l2-category": f"VS_{kind}", "image": _cell(picture)}
                table.rows.append({"index": index, "question": question.text, "answer": answer_over(question, (shown,)), **labels})
                _alter(table, index, question, shown, picture, other_way)
    return table


def _after_edit(query: Query, scene: Scene, edit: Edit, rng: Any) -> Asked:
    """A yes/no question whose answer the edit changes: one that names a value names the one before or the one after."""
    wanted = {value_of(query, scene), value_of(query, edit.scene)}
    while True:
        asked = ask_yes_no(query, scene, rng)
        if query.aspect in ("exists", "side") or asked.claim in wanted:
            return asked


def _mmmu(questions: int, scenes: Iterator[tuple[Scene, Any]]) -> _Table:
    """As in MMMU: a third compares two pictures, a third has options, a third is open."""
    table = _Table()
    for number in range(questions):
        form = ("compare", "choose", "open")[number % 3]
        if form == "compare":
            _compare(table, number + 1, scenes)
            continue
        kinds = [kind for kind in KINDS if kind != "existence"]
        while True:
            query, scene, edit, rng = _drawn(kinds[number // 3 % len(kinds)], scenes)
            if query.aspect != "side":
                break
        asked = ask_choice(query, scene, rng, edit.scene) if form == "choose" else ask_open(query)
        picture = png(scene)
        row = {"question": asked.text, **_options(asked), "answer": answer_over(asked, (scene,))}
        _mmmu_row(table, number + 1, row, form, query.kind, [picture])
        _alter(table, number + 1, asked, scene, picture, edit)
    return table


def _compare(table: _Table, index: int, scenes: Iterator[tuple[Scene, Any]]) -> None:
    while True:
        (first, rng), (second, _) = next(scenes), next(scenes)
        about = rng.choice([(t.colour, "") for t in first.things if t.colour] or [("red", "")])
        asked, edit = more_asked(about), edit_for(Query("count", (about,)), first, rng)
        before = answer_over(asked, (first, second))
        if edit is not None and answer_over(asked, (edit.scene, second)) != before:
            break
    pictures = [png(first), png(second)]
    row = {"question": asked.text, **_options(asked), "answer": before}
    _mmmu_row(table, index, row, "compare", "quantity", pictures)
    after = answer_over(asked, (edit.scene, second))
    table.altered.append((index, 0, pictures[0], png(edit.scene), edit, before, after))


def _mmmu_row(table: _Table, index: int, row: dict[str, Any], form: str, kind: Kind, pictures: list[bytes]) -> None:
    place = {"category": kind.capitalize(), "l2-category": form, "split": "validation", "image_type": "['Drawing']"}
    images = str([_cell(picture) for picture in pictures])
    paths = str([f"scenes_{index}_{i + 1}.png" for i in range(len(pictures))])
    table.rows.append({"index": index, "id": f"validation_Scenes_{index}", **row, **place, "image": images, "image_path": paths})


BENCHMARKS = (
    ScenesBenchmark("ScenesPOPE", _pope),
    ScenesBenchmark("ScenesMCQ", _mcq),
    ScenesBenchmark("ScenesHallusion", _hallusion),
    ScenesBenchmark("ScenesMMMU", _mmmu),
)
