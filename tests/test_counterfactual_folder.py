"""Altered pictures are found for the question they were made for, and never taken for what they are not."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.errors import QuestionError, UserError
from mug_eval.images import load_image

SHARED = Path(__file__).parents[1].parent / "shared" / "data"


def photo(colour: str, kind: str = "PNG", size: tuple[int, int] = (12, 8)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, kind)
    return buffer.getvalue()


RED, GREEN, BLUE = photo("red"), photo("green"), photo("blue")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def folder_of(tmp_path: Path, files: dict[str, bytes], lines: list[dict[str, Any] | str] | None = None) -> Path:
    folder = tmp_path / "counterfactuals"
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if lines is not None:
        text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
        (folder / "manifest.jsonl").write_text(text + "\n", encoding="utf-8")
    return folder


def entry(original: bytes, file: str, index: Any = None, **more: Any) -> dict[str, Any]:
    fields = {"image_sha256": digest(original), "file": file, **more}
    return fields if index is None else {**fields, "question_index": index}


def test_an_entry_fits_by_picture_and_question(tmp_path: Path) -> None:
    lines = [entry(RED, "a.png", 7, edit="recolour", target="bus", instruction="Make it blue.")]
    found = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, lines)).find("7", [RED], ["7.png"])
    assert found is not None
    assert found.image == load_image(BLUE)
    assert (found.position, found.match) == (0, "question")
    assert dict(found.edit) == {"edit": "recolour", "target": "bus", "instruction": "Make it blue.", "file": "a.png"}


def test_a_file_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    for name in ("half\ud83d.png", "a\0b.png", ""):
        with pytest.raises(UserError, match=r"line 1: 'file' must be the name of a picture") as caught:
            CounterfactualFolder(folder_of(tmp_path / name[:1], {"a.png": BLUE}, [entry(RED, name)]))
        str(caught.value).encode()  # it can be printed


def test_an_entry_for_another_question_or_picture_does_not_fit(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, [entry(RED, "a.png", 7)]))
    assert folder.find("8", [RED], ["8.png"]) is None
    assert folder.find("7", [GREEN], ["7.png"]) is None
    assert folder.find("7", [], []) is None


def test_matched_by_image_an_entry_serves_every_question_about_the_picture(tmp_path: Path) -> None:
    files = {"a.png": BLUE, "b.png": GREEN}
    lines: list[dict[str, Any] | str] = [entry(RED, "b.png", 7), entry(RED, "a.png", "8")]
    folder = CounterfactualFolder(folder_of(tmp_path, files, lines), match="image")
    own, other = folder.find("7", [RED], []), folder.find("9", [RED], [])
    assert own is not None and (own.match, own.image) == ("question", load_image(GREEN))
    assert other is not None and (other.match, other.image) == ("image", load_image(BLUE))


def test_an_entry_without_a_question_fits_by_picture_but_comes_after_the_questions_own(tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [entry(RED, "a.png"), entry(RED, "b.png", 7)]
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE, "b.png": GREEN}, lines))
    own, other = folder.find("7", [RED], []), folder.find("1", [RED], [])
    assert own is not None and dict(own.edit)["file"] == "b.png"
    assert other is not None and (dict(other.edit)["file"], other.match) == ("a.png", "image")


def test_in_a_question_with_several_pictures_the_right_one_is_replaced(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, [entry(RED, "a.png", 7)]))
    found = folder.find("7", [GREEN, RED], ["7_0.png", "7_1.png"])
    assert found is not None and found.position == 1


def test_the_lowest_file_name_decides_among_equals(tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [entry(RED, "b.png", 7), entry(RED, "a.png", 7)]
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE, "b.png": GREEN}, lines))
    found = folder.find("7", [RED], [])
    assert found is not None and dict(found.edit)["file"] == "a.png"
    assert any("lowest file name" in note for note in folder.notes)


def test_answers_in_the_manifest_do_not_come_along(tmp_path: Path) -> None:
    line = entry(
        RED, "a.png", 7, answer_before="GOLD", answer_after="GOLD", answer="GOLD", count_before=3, question="?", edit_type="remove"
    )
    found = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, [line])).find("7", [RED], [])
    assert found is not None
    assert dict(found.edit) == {"edit_type": "remove", "file": "a.png"}


def test_pictures_are_brought_to_the_size_of_the_originals(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, [entry(RED, "a.png", 7)]), size=(5, 9))
    found = folder.find("7", [RED], [])
    assert found is not None and (found.image.width, found.image.height) == (5, 9)


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF"])
def test_a_counterfactual_that_shows_the_original_is_refused_at_its_question(tmp_path: Path, kind: str) -> None:
    same = photo("red", kind)
    lines: list[dict[str, Any] | str] = [entry(RED, "a.png", 7), entry(RED, "b.png", 8)]
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": same, "b.png": GREEN}, lines))
    with pytest.raises(QuestionError, match=r"question 7.*a\.png shows exactly what the original shows"):
        folder.find("7", [RED], [])
    assert folder.find("8", [RED], []) is not None


def test_pictures_that_become_the_same_at_the_presets_size_are_refused(tmp_path: Path) -> None:
    original = Image.new("RGB", (64, 64), "white")
    original.putpixel((0, 0), (254, 255, 255))
    buffer = io.BytesIO()
    original.save(buffer, "PNG")
    lines: list[dict[str, Any] | str] = [entry(buffer.getvalue(), "a.png", 7)]
    path = folder_of(tmp_path, {"a.png": photo("white", size=(64, 64))}, lines)
    assert CounterfactualFolder(path).find("7", [buffer.getvalue()], []) is not None
    with pytest.raises(QuestionError, match="exactly what the original shows"):
        CounterfactualFolder(path, size=(8, 8)).find("7", [buffer.getvalue()], [])


def test_without_a_manifest_files_fit_by_vlmevalkits_names(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"7.jpg": photo("blue", "JPEG"), "a.b.1.PNG": GREEN, "note.txt": b"x"}))
    found = folder.find("7", [RED], ["7.png"])
    assert found is not None and (found.match, found.position, found.edit) == ("name", 0, (("file", "7.jpg"),))
    assert folder.find("a.b.1", [RED], ["a.b.1.png"]) is not None
    assert folder.find("8", [RED], ["8.png"]) is None
    assert folder.find("7", [RED], []) is not None
    assert len(folder) == 2
    assert "2 altered pictures, by name" in folder.notes[0]


def test_without_a_manifest_pictures_of_several_are_found_by_their_own_names(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"9_1.webp": BLUE, "validation_Art_1_2.png": GREEN}))
    by_number = folder.find("9", [RED, RED], ["9_0.png", "9_1.png"])
    assert by_number is not None and by_number.position == 1
    by_path = folder.find("12", [RED, RED], ["validation_Art_1_1.png", "validation_Art_1_2.png"])
    assert by_path is not None and (by_path.position, by_path.image) == (1, load_image(GREEN))
    assert folder.find("9", [RED], ["9.png"]) is None


def test_of_a_whole_set_of_names_the_picture_that_was_altered_is_taken(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"9_0.png": RED, "9_1.png": BLUE, "5_0.png": RED, "5_1.png": GREEN}))
    found = folder.find("9", [RED, GREEN], ["9_0.png", "9_1.png"])
    assert found is not None and (found.position, found.image) == (1, load_image(BLUE))
    with pytest.raises(QuestionError, match="exactly what the original shows"):
        folder.find("5", [RED, GREEN], ["5_0.png", "5_1.png"])


def test_a_missing_or_useless_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no folder .*nowhere"):
        CounterfactualFolder(tmp_path / "nowhere")
    (tmp_path / "file").write_bytes(RED)
    with pytest.raises(UserError, match=r"no folder .*file"):
        CounterfactualFolder(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"neither manifest\.jsonl nor pictures"):
        CounterfactualFolder(tmp_path / "empty")


def test_two_pictures_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"7\.jpg and 7\.png.*keep one"):
        CounterfactualFolder(folder_of(tmp_path, {"7.png": RED, "7.jpg": RED}))


GOOD = entry(RED, "a.png", 7)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"image_sha256": "ab', "torn"),
        ("[1, 2]", "JSON object is wanted, not list"),
        ("[" * 100_000, "torn"),
        ('{"file": "a.png"}', "'image_sha256' is missing"),
        (json.dumps({"image_sha256": digest(RED)}), "'file' is missing"),
        (json.dumps({**GOOD, "image_sha256": "xyz"}), "'image_sha256' must be a SHA-256"),
        (json.dumps({**GOOD, "file_sha256": 5}), "'file_sha256' must be a SHA-256"),
        (json.dumps({**GOOD, "file": 5}), "'file' must be the name"),
        (json.dumps({**GOOD, "file": ""}), "'file' must be the name"),
        (json.dumps({**GOOD, "question_index": 1.5}), "'question_index' must be"),
        (json.dumps({**GOOD, "question_index": True}), "'question_index' must be"),
    ],
)
def test_a_bad_line_of_the_manifest_is_named_by_its_number(tmp_path: Path, line: str, words: str) -> None:
    folder = folder_of(tmp_path, {"a.png": BLUE}, [GOOD, "", line])
    with pytest.raises(UserError, match="line 3.*" + words):
        CounterfactualFolder(folder)


def test_a_manifest_that_is_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.png": BLUE}, ["", ""])
    with pytest.raises(UserError, match="empty"):
        CounterfactualFolder(folder)
    (folder / "manifest.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        CounterfactualFolder(folder)


def test_a_manifest_with_a_byte_order_mark_and_crlf_and_no_last_line_end_is_read(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.png": BLUE}, [])
    (folder / "manifest.jsonl").write_bytes(
        b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n\r\n" + json.dumps(entry(GREEN, "a.png")).encode()
    )
    assert CounterfactualFolder(folder).find("7", [RED], []) is not None


@pytest.mark.parametrize("name", ["../outside.png", "sub/../../outside.png", "ABSOLUTE", "link.png", "linked/outside.png"])
def test_a_file_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside.png").write_bytes(BLUE)
    folder = folder_of(tmp_path, {"sub/a.png": BLUE}, [])
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    (folder / "linked").symlink_to(tmp_path)
    name = str(tmp_path / "outside.png") if name == "ABSOLUTE" else name
    (folder / "manifest.jsonl").write_text(json.dumps(entry(RED, name, 7)))
    with pytest.raises(UserError, match="outside"):
        CounterfactualFolder(folder)


def test_a_link_to_a_picture_outside_is_refused_by_name_too(tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_bytes(BLUE)
    folder = folder_of(tmp_path, {})
    (folder / "7.png").symlink_to(tmp_path / "outside.png")
    with pytest.raises(UserError, match="outside"):
        CounterfactualFolder(folder)


def test_a_file_in_a_folder_below_or_linked_within_is_taken(tmp_path: Path) -> None:
    lines: list[dict[str, Any] | str] = [entry(RED, "sub/a.png", 7), entry(RED, "b.png", 8)]
    folder = folder_of(tmp_path, {"sub/a.png": BLUE}, lines)
    (folder / "b.png").symlink_to(folder / "sub" / "a.png")
    found = CounterfactualFolder(folder)
    assert found.find("7", [RED], []) is not None
    assert found.find("8", [RED], []) is not None


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.png, named in manifest\.jsonl"):
        CounterfactualFolder(folder_of(tmp_path, {}, [entry(RED, "gone.png", 7)]))


def test_a_file_that_is_not_what_the_manifest_says_is_refused(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE}, [entry(RED, "a.png", 7, file_sha256=digest(GREEN))]))
    with pytest.raises(UserError, match=r"a\.png is not the file that manifest\.jsonl describes"):
        _ = folder.sha256
    with pytest.raises(QuestionError, match=r"a\.png"):
        folder.find("7", [RED], [])


def test_a_file_that_changes_or_goes_during_a_run_costs_its_question_only(tmp_path: Path) -> None:
    path = folder_of(tmp_path, {"a.png": BLUE, "b.png": BLUE}, [entry(RED, "a.png", 7), entry(RED, "b.png", 8)])
    folder = CounterfactualFolder(path)
    assert folder.sha256
    (path / "a.png").write_bytes(GREEN)
    (path / "b.png").unlink()
    for index in ("7", "8"):
        with pytest.raises(QuestionError):
            folder.find(index, [RED], [])


def test_a_file_that_does_not_decode_costs_its_question_only(tmp_path: Path) -> None:
    folder = CounterfactualFolder(folder_of(tmp_path, {"a.png": BLUE[:30]}, [entry(RED, "a.png", 7)]))
    with pytest.raises(QuestionError, match=r"question 7: counterfactual a\.png"):
        folder.find("7", [RED], [])


def test_the_identity_follows_what_is_said_and_shown_and_not_the_place(tmp_path: Path) -> None:
    path = folder_of(tmp_path, {"a.png": BLUE}, [entry(RED, "a.png", 7, target="bus")])
    identity = CounterfactualFolder(path).sha256
    shutil.copytree(path, tmp_path / "copy")
    assert CounterfactualFolder(tmp_path / "copy").sha256 == identity
    (path / "a.png").write_bytes(GREEN)
    assert CounterfactualFolder(path).sha256 != identity
    (path / "a.png").write_bytes(BLUE)
    (path / "manifest.jsonl").write_text(json.dumps(entry(RED, "a.png", 8, target="bus")))
    assert CounterfactualFolder(path).sha256 != identity


def test_the_identity_of_named_pictures_follows_names_and_content(tmp_path: Path) -> None:
    path = folder_of(tmp_path, {"7.png": BLUE})
    identity = CounterfactualFolder(path).sha256
    (path / "7.png").rename(path / "8.png")
    assert CounterfactualFolder(path).sha256 != identity


def test_the_trial_sets_edits_are_found_for_their_photos() -> None:
    if not (SHARED / "counterfactuals" / "manifest.jsonl").exists():
        pytest.skip("the trial data (../shared/data) is not on this machine")
    csv.field_size_limit(1 << 30)
    with (SHARED / "photo_pope.tsv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream, delimiter="\t"))
    by_question = CounterfactualFolder(SHARED / "counterfactuals")
    by_image = CounterfactualFolder(SHARED / "counterfactuals", match="image")
    assert by_question.sha256 == by_image.sha256
    found = {row["index"]: by_question.find(row["index"], [base64.b64decode(row["image"])], []) for row in rows}
    assert sum(one is not None for one in found.values()) == len(by_question) == 39
    assert sum(by_image.find(row["index"], [base64.b64decode(row["image"])], []) is not None for row in rows) == 117
