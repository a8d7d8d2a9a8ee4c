"""Counterfactuals that were made: pictures by their content, and what became of every question, one JSON line each.

A store is a folder that :class:`mug_eval.counterfactual.folder.CounterfactualFolder` reads as it is::

    build.json          what the store was built with; it is not continued with anything else
    pictures/ab/ab12....png   the accepted pictures, named by the SHA-256 of their bytes
    manifest.jsonl      accepted edits, a question a line
    given_up.jsonl      questions without one (state ``no_counterfactual``) and why
    tries.jsonl         rejected tries, with scores and reasons
    answers.jsonl       what is known of answers; no game ever opens it (validity rule 2)
    retried.jsonl       what was given up and was then tried again, as it stood, with its tries and answers; lines are only added

A line of ``manifest.jsonl`` or ``given_up.jsonl`` decides its question, and is written last, in one piece; what a kill leaves half done is
dropped when the store is opened again, so that the question is done anew with the same seeds. No line holds a time. :meth:`Store.close`
puts lines into the dataset's order: two builds with the same configuration and seed end with the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from PIL import Image

from mug_eval.atomic import atomic_write
from mug_eval.counterfactual.question_lines import QuestionLines
from mug_eval.differences import differences
from mug_eval.engine.lock import STORE, folder_lock
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes

BUILD = "build.json"
MANIFEST = "manifest.jsonl"
GIVEN_UP = "given_up.jsonl"
TRIES = "tries.jsonl"
ANSWERS = "answers.jsonl"
RETRIED = "retried.jsonl"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Try:
    """One edited picture that was judged and rejected, or an edit that failed.

    Attributes:
        number: of the try for its question, from 1.
        seed: the editor's.
        edit: kind of the edit.
        target: what it was about.
        instruction: as the editor was given it.
        rejected: names of the constraints that did not hold, or ``("editor",)`` where there was no picture.
        reason: one line.
        scores: of the constraints; empty where there was no picture.
        picture: SHA-256 of the rejected picture's pixels, so that a repeated failure is seen as one; empty where there was none.
    """

    number: int
    seed: int
    edit: str
    target: str
    instruction: str
    rejected: tuple[str, ...]
    reason: str
    scores: Mapping[str, float] = field(default_factory=dict)
    picture: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted edit, for one question. Nothing in it is an answer or tells one.

    Attributes:
        question_index: the question's.
        image_sha256: of the original's bytes in the benchmark file.
        position: which of the question's pictures it is, from 0.
        edit: kind of the edit.
        edit_type: of the question (object, quantity, attribute, spatial, other).
        target: what was edited.
        instruction: as the editor was given it.
        boxes: (left, top, right, bottom) in pixels of I+, where the edit was to happen.
        editor: name of the editor.
        planner: fingerprint of who planned.
        seed: the accepted try's.
        tries: how many it took, this one included.
        scores: of the constraints.
    """

    question_index: str
    image_sha256: str
    position: int
    edit: str
    edit_type: str
    target: str
    instruction: str
    boxes: tuple[tuple[float, float, float, float], ...]
    editor: str
    planner: str
    seed: int
    tries: int
    scores: Mapping[str, float]


class Store:
    """A store open for building; one builder at a time.

    Args:
        folder: made if it is not there.
        build: what the pictures depend on (benchmark and its hash, planner, editor, rule, seed, ... and ``features``,
            ``constraints.Judges.provenance()``), as JSON values.

    Attributes:
        lost: questions whose picture was missing or not the recorded one; they are undecided again, and their picture is made anew.

    Raises:
        UserError: another build holds the folder, it was begun with another ``build``, it holds something else, or a line is damaged.
        RunStopped: the disk is full or cannot be written.
    """

    def __init__(self, folder: Path, build: Mapping[str, Any]) -> None:
        self.folder = folder
        self.build: dict[str, Any] = json.loads(json_bytes({"store": VERSION, **build}))
        self._held = contextlib.ExitStack()
        try:
            self._held.enter_context(folder_lock(folder, STORE))
            self._open_build()
            names = (MANIFEST, GIVEN_UP, TRIES, ANSWERS, *((RETRIED,) if (folder / RETRIED).exists() else ()))
            self._files = {name: self._held.enter_context(QuestionLines(folder / name)) for name in names}
            self._retried = self._files[RETRIED].by_question() if RETRIED in self._files else {}
            self._accepted = self._files[MANIFEST].one_by_question()
            self._given_up = self._files[GIVEN_UP].one_by_question()
            for index in self._accepted.keys() & self._given_up.keys():
                raise UserError(f"{folder}: question {index} stands in {MANIFEST} and in {GIVEN_UP}; delete one of the two lines")
            self._tries = self._files[TRIES].by_question()
            self._answers = self._files[ANSWERS].by_question()
            self.lost = self._drop_lost()
            self._drop_undecided()
        except BaseException:
            self._held.close()
            raise

    def decided(self, index: str) -> bool:
        """Whether the question has its counterfactual, or the reason why it has none. It is not done again."""
        return index in self._accepted or index in self._given_up

    @property
    def accepted(self) -> Mapping[str, Mapping[str, Any]]:
        """The manifest's lines by question."""
        return self._accepted

    @property
    def given_up(self) -> Mapping[str, Mapping[str, Any]]:
        """The lines of ``given_up.jsonl`` by question."""
        return self._given_up

    @property
    def tries(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rejected tries by question."""
        return self._tries

    def attempt(self, index: str) -> int:
        """How often the question was given up before and taken up again; its draws are others each time."""
        return len(self._retried.get(index, ()))

    def take_up_again(self, indices: Sequence[str], causes: Sequence[str] = ()) -> list[str]:
        """Undecide questions that were given up. What is known of them stays in ``retried.jsonl``.

        Args:
            indices: those to look at.
            causes: only what was given up for one of these; none: for any.

        Returns:
            The questions that are to be done again.

        Raises:
            RunStopped: the disk is full; every question is as decided as it was, or is to be done again.
        """
        again = [
            index for index in indices if index in self._given_up and (not causes or self._given_up[index].get("cause") in causes)
        ]
        if not again:
            return []
        if RETRIED not in self._files:
            self._files[RETRIED] = self._held.enter_context(QuestionLines(self.folder / RETRIED))
        lines = [
            {
                "question_index": index,
                "number": self.attempt(index) + 1,
                "given_up": self._given_up[index],
                "tries": self._tries.get(index, []),
                "answers": self._answers.get(index, []),
            }
            for index in again
        ]
        # Recorded first: a kill in between leaves a question given up and its record there, which is then not written twice.
        lines = [line for line in lines if not self._recorded(line)]
        for line in self._files[RETRIED].append(lines):
            self._retried.setdefault(line["question_index"], []).append(line)
        gone = set(again)
        self._files[GIVEN_UP].rewrite(lambda line: 0, lambda line: line["question_index"] not in gone)
        for index in again:
            del self._given_up[index]
        self._drop_undecided()
        return again

    def _recorded(self, line: Mapping[str, Any]) -> bool:
        known = self._retried.get(line["question_index"], [])
        return bool(known) and known[-1]["given_up"] == line["given_up"] and known[-1]["tries"] == line["tries"]

    def accept(
        self, edit: Accepted, picture: Image.Image, rejected: Sequence[Try] = (), answers: Mapping[str, Any] | None = None
    ) -> str:
        """Record an accepted edit: its picture, the rejected tries before it, its answers, and last its manifest line.

        Args:
            edit: what was done.
            picture: I-.
            rejected: the tries before.
            answers: what is known of the answers before and after; kept where no game reads.

        Returns:
            The picture's file, relative to the folder.

        Raises:
            RunStopped: the disk is full; the question stays undecided and nothing of others is lost.
            ValueError: the question is decided already.
        """
        self._undecided(edit.question_index)
        data = png(picture)
        sha256 = hashlib.sha256(data).hexdigest()
        file = f"pictures/{sha256[:2]}/{sha256}.png"
        if not self._is_whole(self.folder / file, sha256):  # a disk may have lost what was written
            atomic_write(self.folder / file, data)
        line = {"question_index": edit.question_index, "image_sha256": edit.image_sha256, "file": file, "file_sha256": sha256}
        line |= asdict(edit) | {"features": self.build.get("features"), "accepted": True, "reason": ""}
        self._accepted[edit.question_index] = self._record(MANIFEST, line, rejected, answers)
        return file

    def give_up(
        self, index: str, reason: str, rejected: Sequence[Try] = (), answers: Mapping[str, Any] | None = None, **facts: Any
    ) -> None:
        """Record that a question gets no counterfactual, and why.

        Args:
            index: the question's.
            reason: one line.
            rejected: the tries that were made.
            answers: as for :meth:`accept`.
            facts: what else is known (``edit_type``, ``target``), as JSON values.

        Raises:
            RunStopped: the disk is full; the question stays undecided and nothing of others is lost.
            ValueError: the question is decided already.
        """
        self._undecided(index)
        line = {"question_index": index, "state": "no_counterfactual", "reason": reason, "tries": len(rejected), **facts}
        if self.attempt(index):  # or a question given up twice for the same reason would be taken for one given up once
            line["attempt"] = self.attempt(index)
        self._given_up[index] = self._record(GIVEN_UP, line, rejected, answers)

    def close(self, order: Sequence[str] = ()) -> None:
        """Put the lines into an order, remove pictures that no line names, and let go of the folder.

        Args:
            order: all of the dataset's question indices, in its order. Questions that are not named come after, by index: nothing that was
                made is thrown away.

        Raises:
            RunStopped: the disk is full; each file is as it was or as it should be.
        """
        with self._held:
            place = {index: number for number, index in enumerate(order)}

            def key(line: Mapping[str, Any]) -> tuple[int, str, int]:
                index = line["question_index"]
                return place.get(index, len(place)), "" if index in place else index, line.get("number", 0)

            for file in self._files.values():
                file.rewrite(key)
            named = {line["file"] for line in self._accepted.values()}
            for path in sorted((self.folder / "pictures").rglob("*")):
                if path.is_file() and path.relative_to(self.folder).as_posix() not in named:
                    path.unlink()  # of a question that a kill left undecided

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._held.close()

    def _undecided(self, index: str) -> None:
        if self.decided(index):
            raise ValueError(f"question {index} is decided in {self.folder} already")

    def _record(
        self, name: str, line: Mapping[str, Any], rejected: Sequence[Try], answers: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Write what belongs to a decision; the deciding line last: before it nothing counts, after it nothing is missing."""
        index = line["question_index"]
        tries = [{"question_index": index, **asdict(each)} for each in rejected]
        known = [] if answers is None else [{"question_index": index, **answers}]
        sizes = {file: file.size for file in self._files.values()}
        try:
            tries = self._files[TRIES].append(tries)
            known = self._files[ANSWERS].append(known)
            (written,) = self._files[name].append([line])
        except BaseException:
            for file, size in sizes.items():
                file.cut(size)
            raise
        if tries:
            self._tries[index] = tries
        if known:
            self._answers[index] = known
        return written

    def _open_build(self) -> None:
        path = self.folder / BUILD
        try:
            before = json.loads(path.read_bytes())
        except FileNotFoundError:
            found = sorted(entry.name for entry in self.folder.iterdir() if entry.name not in (".lock", f".{BUILD}.part"))
            if found:
                raise UserError(f"{self.folder} is no store of ours (it holds {found[0]}); choose another folder") from None
            atomic_write(path, json_bytes(self.build) + b"\n")
            return
        except (OSError, ValueError) as error:
            raise UserError(f"{path} cannot be read ({error}); put a copy of it back or choose another folder") from error
        changed = differences(before, self.build) if isinstance(before, dict) else ["all of it"]
        records = (self.folder / name for name in (MANIFEST, GIVEN_UP, TRIES, ANSWERS, RETRIED))
        ours = isinstance(before, dict) and "store" in before
        if changed and ours and not any(path.exists() and path.stat().st_size for path in records):
            atomic_write(path, json_bytes(self.build) + b"\n")  # a build that failed before its first question binds nobody
        elif changed:
            raise UserError(
                f"{self.folder} was built with other settings: {'; '.join(changed)}. Choose another folder, or give the old ones"
            )

    def _drop_lost(self) -> list[str]:
        """Undecide what names a picture that is not there as it was made."""
        whole: dict[str, bool] = {}
        for line in self._accepted.values():
            file = str(line.get("file"))
            if file not in whole:
                whole[file] = self._is_whole(self.folder / file, line.get("file_sha256"))
        lost = [index for index, line in self._accepted.items() if not whole[str(line.get("file"))]]
        if lost:
            gone = set(lost)
            self._files[MANIFEST].rewrite(lambda line: 0, lambda line: line["question_index"] not in gone)
        for index in lost:
            del self._accepted[index]
        return lost

    @staticmethod
    def _is_whole(path: Path, sha256: object) -> bool:
        try:
            if not path.is_file():
                return False
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == sha256
        except OSError:
            return False

    def _drop_undecided(self) -> None:
        """Tries and answers of a question that a kill left undecided; it is done again from its first try."""
        for name, kept in ((TRIES, self._tries), (ANSWERS, self._answers)):
            lost = [index for index in kept if not self.decided(index)]
            for index in lost:
                del kept[index]
            if lost:
                self._files[name].rewrite(lambda line: 0, lambda line: self.decided(line["question_index"]))


def png(picture: Image.Image) -> bytes:
    """A picture's pixels as PNG, RGB, without metadata; the same pixels give the same bytes."""
    bare = Image.new("RGB", picture.size)
    bare.paste(picture if picture.mode == "RGB" else picture.convert("RGB"))
    out = io.BytesIO()
    bare.save(out, "PNG", compress_level=6)
    return out.getvalue()
