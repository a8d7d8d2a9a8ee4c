"""Counterfactual pictures that somebody made, from a folder: by its manifest, or by VLMEvalKit's names for its pictures.

``manifest.jsonl`` holds one object a line: ``image_sha256`` (of the original's bytes in the benchmark file) and ``file`` (the
altered picture, relative to the folder); ``question_index`` (for which question the edit was made), ``file_sha256``, and
``edit``, ``target``, ``instruction`` for the record. Without a manifest a file fits a picture when it has the name, but for the
ending, that VLMEvalKit gives to that picture.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from mug_eval.chat import ImageRef
from mug_eval.counterfactual import Match
from mug_eval.errors import QuestionError, UserError
from mug_eval.images import ImageError, load_image, same_pixels
from mug_eval.seeds import generator

MANIFEST = "manifest.jsonl"
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")

# A manifest may also hold the answers before and after the edit, and counts or colours that amount to them. They must not come
# near a game (validity rule 2), so what goes on the record is listed here by name.
RECORDED = ("edit", "edit_type", "type", "target", "instruction", "editor", "file")


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A picture I- for one question.

    Attributes:
        image: the altered picture.
        position: which of the question's pictures it replaces, from 0.
        match: how it was found: made for this ``question``, made for this ``image``, for an ``other`` question, or by its ``name``.
        edit: what is known of the edit, for the record only.
    """

    image: ImageRef
    position: int
    match: Literal["question", "image", "other", "name"]
    edit: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the manifest."""

    image_sha256: str
    file: str
    question_index: str | None
    file_sha256: str | None
    edit: tuple[tuple[str, str], ...]


class CounterfactualFolder:
    """A folder of altered pictures; pictures are read when a question asks for one.

    Args:
        folder: the folder.
        size: (width, height) in pixels that pictures are brought to, as for the originals; None leaves them.
        match: ``question``: an entry that names a question serves that question only. ``image``: it serves every question about
            that picture when none was made for the question itself. ``other``: only an entry that was made for another question about
            the picture, with another target, and only for questions that have one of their own (``--ablation random-edit``).

    Raises:
        UserError: no such folder, nothing in it, a manifest line that cannot be used, a file that is missing or lies outside.
    """

    def __init__(self, folder: Path, size: tuple[int, int] | None = None, match: Match = "question") -> None:
        if match not in get_args(Match):
            raise UserError(f"counterfactuals are matched by 'question', by 'image' or by 'other', not by {match!r}")
        self._folder = folder
        self._size = size
        self._match = match
        self._hashes: dict[str, str] = {}
        self._entries: dict[str, list[_Entry]] = {}
        self._named: dict[str, str] = {}
        if not folder.is_dir():
            raise UserError(f"counterfactuals: there is no folder {folder}")
        try:
            self._root = folder.resolve(strict=True)
            if (folder / MANIFEST).exists():
                entries = list(_read_manifest(folder / MANIFEST))
                for entry in sorted(entries, key=lambda entry: entry.file):
                    self._check_place(entry.file)
                    self._entries.setdefault(entry.image_sha256, []).append(entry)
                self._files = tuple(sorted({entry.file for entry in entries}))
            else:
                self._files = self._index_names()
        except OSError as error:
            raise UserError(f"counterfactuals: {folder} cannot be read: {error}") from error
        self.by_manifest = bool(self._entries)
        if match == "other" and not self.by_manifest:
            raise UserError(f"{folder} has no {MANIFEST}, so nobody knows what its edits are about: random-edit needs one")

    def __len__(self) -> int:
        """How many altered pictures the folder offers."""
        return len(self._files)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found, one line each."""
        if not self.by_manifest:
            return (f"{len(self._files)} altered pictures, by name (the folder has no {MANIFEST})",)
        every = [entry for entries in self._entries.values() for entry in entries]
        bound = sum(entry.question_index is not None for entry in every)
        lines = [f"{len(self._files)} altered pictures of {len(self._entries)} originals; {bound} of {len(every)} name a question"]
        doubled = len(every) - len({(entry.image_sha256, entry.question_index) for entry in every})
        if doubled:
            lines.append(f"{doubled} entries are for a question or picture that has one already: the lowest file name is taken")
        return tuple(lines)

    @cached_property
    def sha256(self) -> str:
        """The identity of what the folder says and shows: SHA-256 over the entries used and the hash of every picture.

        Reads every file once, so that it also finds, before anything is asked, a file that is not what the manifest says.

        Raises:
            UserError: a file cannot be read or has another ``file_sha256`` than the manifest gives.
        """
        digest = hashlib.sha256()
        for file in self._files:
            try:
                with (self._folder / file).open("rb") as stream:
                    self._hashes[file] = hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                raise UserError(f"counterfactuals: {file} cannot be read: {error}") from error
            digest.update(json.dumps([file, self._hashes[file]]).encode())
        for image_sha256 in sorted(self._entries):
            for entry in self._entries[image_sha256]:
                if entry.file_sha256 not in (None, self._hashes[entry.file]):
                    raise UserError(
                        f"counterfactuals: {entry.file} is not the file that {MANIFEST} describes (its SHA-256 is "
                        f"{self._hashes[entry.file]}, file_sha256 says {entry.file_sha256}); restore the file (counterfactuals build "
                        "makes it again), or correct the line"
                    )
                digest.update(json.dumps([image_sha256, entry.question_index, entry.file, entry.edit]).encode())
        return digest.hexdigest()

    def find(self, index: str, pictures: Sequence[bytes], names: Sequence[str]) -> Counterfactual | None:
        """The altered picture for a question, None if there is none.

        Args:
            index: the question's index.
            pictures: the question's pictures, the bytes as they stand in the benchmark file.
            names: the file names that VLMEvalKit gives to these pictures, in the same order (may be empty).

        Raises:
            QuestionError: the picture cannot be read or decoded, is not what the manifest says, or shows the same as the original.
        """
        if self._match == "other":
            return self._find_other(index, pictures)
        if self.by_manifest:
            return self._find_listed(index, pictures)
        return self._find_named(index, pictures, names)

    def _find_listed(self, index: str, pictures: Sequence[bytes]) -> Counterfactual | None:
        fitting: list[tuple[int, str, int, _Entry]] = []
        for position, picture in enumerate(pictures):
            for entry in self._entries.get(hashlib.sha256(picture).hexdigest(), ()):
                if entry.question_index == index:
                    rank = 0
                elif entry.question_index is None:
                    rank = 1
                elif self._match == "image":
                    rank = 2
                else:
                    continue
                fitting.append((rank, entry.file, position, entry))
        if not fitting:
            return None
        rank, _file, position, entry = min(fitting, key=lambda fit: fit[:3])
        return self._listed(index, pictures, position, entry, "question" if rank == 0 else "image")

    def _find_other(self, index: str, pictures: Sequence[bytes]) -> Counterfactual | None:
        """An edit of another thing of the same picture, drawn by the question's index."""
        for position, picture in enumerate(pictures):
            entries = self._entries.get(hashlib.sha256(picture).hexdigest(), ())
            own = {dict(entry.edit).get("target") for entry in entries if entry.question_index == index}
            others = [
                entry
                for entry in entries
                if entry.question_index not in (None, index) and dict(entry.edit).get("target") not in (*own, None)
            ]
            if own and others:
                return self._listed(index, pictures, position, generator("other edit", index).choice(others), "other")
        return None

    def _listed(
        self, index: str, pictures: Sequence[bytes], position: int, entry: _Entry, match: Literal["question", "image", "other"]
    ) -> Counterfactual:
        image = self._altered(entry.file, self._read(entry.file, entry.file_sha256), pictures[position], index)
        if image is None:
            raise QuestionError(_shows_the_same(entry.file, index))
        return Counterfactual(image, position, match, entry.edit)

    def _find_named(self, index: str, pictures: Sequence[bytes], names: Sequence[str]) -> Counterfactual | None:
        unchanged: str | None = None
        for position, picture in enumerate(pictures):
            stems = [_stem(PurePosixPath(names[position]).name)] if position < len(names) else []
            stems.append(f"{index}_{position}")
            if len(pictures) == 1:
                stems.append(index)
            file = next((self._named[stem] for stem in stems if stem in self._named), None)
            if file is None:
                continue
            image = self._altered(file, self._read(file, None), picture, index)
            if image is not None:
                return Counterfactual(image, position, "name", (("file", file),))
            unchanged = unchanged or file  # in a folder of all pictures of a question only one may have been edited
        if unchanged is not None:
            raise QuestionError(_shows_the_same(unchanged, index))
        return None

    def _altered(self, file: str, data: bytes, original: bytes, index: str) -> ImageRef | None:
        """The picture in the file, None if it shows what the original shows."""
        try:
            image = load_image(data, self._size)
        except ImageError as error:
            raise QuestionError(f"question {index}: counterfactual {file}: {error}") from error
        return None if same_pixels(image, load_image(original, self._size)) else image

    def _read(self, file: str, file_sha256: str | None) -> bytes:
        try:
            self._check_place(file)
            data = (self._folder / file).read_bytes()
        except (OSError, UserError) as error:
            raise QuestionError(f"counterfactual {file} cannot be read: {error}") from error
        found = hashlib.sha256(data).hexdigest()
        if found != self._hashes.get(file, found) or file_sha256 not in (None, found):
            raise QuestionError(f"counterfactual {file} is not the file that it was said to be: its SHA-256 is {found}")
        return data

    def _check_place(self, file: str) -> None:
        """A manifest from a stranger must not be able to send any other file of this machine to a server."""
        path = PurePosixPath(file)
        resolved = (self._folder / file).resolve()
        if path.is_absolute() or ".." in path.parts or not resolved.is_relative_to(self._root):
            raise UserError(f"counterfactuals: {file} lies outside of {self._folder}; put the picture into the folder")
        if not resolved.is_file():
            raise UserError(
                f"counterfactuals: {file}, named in {MANIFEST}, is not in {self._folder}; restore it (counterfactuals build makes it again)"
            )

    def _index_names(self) -> tuple[str, ...]:
        for path in sorted(self._folder.iterdir()):
            if path.suffix.lower() not in ENDINGS or not path.is_file():
                continue
            self._check_place(path.name)
            stem = _stem(path.name)
            if stem in self._named:
                raise UserError(f"counterfactuals: {self._named[stem]} and {path.name} are both for {stem}; keep one of them")
            self._named[stem] = path.name
        if not self._named:
            raise UserError(f"counterfactuals: {self._folder} holds neither {MANIFEST} nor pictures ({', '.join(ENDINGS)})")
        return tuple(sorted(self._named.values()))


def _shows_the_same(file: str, index: str) -> str:
    return (
        f"question {index}: counterfactual {file} shows exactly what the original shows; replace it, or remove it to play the "
        "question without an undercover"
    )


def _stem(name: str) -> str:
    """The name without a picture's ending. Other dots belong to the name: an index may hold some."""
    for ending in ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def _read_manifest(path: Path) -> Iterator[_Entry]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error
    count = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            count += 1
            yield _read_line(f"{path}, line {number}", line)
    if not count and (path.parent / "build.json").exists():
        raise UserError(
            f"{path.parent} holds no accepted picture yet; mug-eval counterfactuals report {path.parent} says why, "
            "mug-eval counterfactuals build makes more"
        )
    if not count:
        raise UserError(f"{path} is empty; remove it to have pictures matched by name")


def _read_line(where: str, line: str) -> _Entry:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not a JSON object ({error}); the line may be torn: write it anew or delete it") from error
    if not isinstance(fields, dict):
        raise UserError(f"{where}: a JSON object is wanted, not {type(fields).__name__}")
    image_sha256 = _hash(where, fields, "image_sha256")
    file = fields.get("file")
    if image_sha256 is None or file is None:
        raise UserError(f"{where}: the field {'image_sha256' if image_sha256 is None else 'file'!r} is missing")
    if not isinstance(file, str) or not file or "\0" in file or any("\ud800" <= char <= "\udfff" for char in file):
        raise UserError(f"{where}: 'file' must be the name of a picture in the folder, not {file!r}")
    index = fields.get("question_index")
    if index is not None and (isinstance(index, bool) or not isinstance(index, str | int)):
        raise UserError(f"{where}: 'question_index' must be a text or a whole number, not {index!r}")
    edit = tuple((name, _as_text(fields[name])) for name in RECORDED if fields.get(name) is not None)
    return _Entry(image_sha256, file, None if index is None else str(index), _hash(where, fields, "file_sha256"), edit)


def _hash(where: str, fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != 64 or set(value.lower()) - set("0123456789abcdef"):
        raise UserError(f"{where}: {name!r} must be a SHA-256 in 64 hexadecimal digits, not {value!r}")
    return value.lower()


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
