"""A benchmark is loaded and prompted by VLMEvalKit's own classes, and what reaches a model comes from the table alone."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import os
import ssl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tables import DATA, ROW, SHARED, TINY, mmmu_row, mmstar_row, picture, pope_row, write_table

from mug_eval.benchmarks import Benchmark, load_task, open_benchmark, task_names, vlmeval
from mug_eval.chat import ImageRef
from mug_eval.errors import QuestionError, UserError
from mug_eval.images import load_image
from mug_eval.question import Question


def tiny(name: str, work_dir: Path, **settings: Any) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=work_dir, data_file=DATA / TINY[name], **settings)


def opened(name: str, folder: Path, rows: Sequence[dict[str, Any]], **settings: Any) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=folder, data_file=write_table(folder / "table.tsv", rows), **settings)


def words(question: Question) -> str:
    return "\n".join(part for part in question.prompt if isinstance(part, str))


# --- task files


PUBLISHED = ["HallusionBench", "MMMU_DEV_VAL", "MMStar", "POPE"]


def test_there_is_a_task_file_for_each_of_the_four_benchmarks_and_for_each_drawn_one_like_it() -> None:
    tasks = [load_task(name) for name in task_names()]
    assert [task.name for task in tasks] == task_names()
    assert [task.name for task in tasks if not task.drawn and task.text is None] == PUBLISHED
    assert sorted(task.upstream for task in tasks if task.drawn) == PUBLISHED


@pytest.mark.parametrize(("typed", "meant"), [("pope", "POPE"), ("MMMU", "MMMU_DEV_VAL"), ("Hallusion", "HallusionBench")])
def test_an_unknown_benchmark_is_answered_with_the_nearest_names(typed: str, meant: str) -> None:
    with pytest.raises(UserError, match=f"unknown benchmark '{typed}'.*{meant}"):
        load_task(typed)


def test_importing_the_package_loads_no_heavy_library() -> None:
    code = "import sys, mug_eval.benchmarks as b; b.task_names(); print(sorted({'vlmeval', 'torch', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_loading_leaves_tls_verification_on_the_environment_as_it_was_and_the_terminal_clean(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = dict(os.environ)
    tiny("POPE", tmp_path)
    assert ssl._create_default_https_context is ssl.create_default_context
    assert {name: os.environ.get(name) for name in ("LMUData", "PRED_FORMAT")} == {
        name: before.get(name) for name in ("LMUData", "PRED_FORMAT")
    }
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_the_user_s_file_is_read_only_and_only_a_copy_is_kept(tmp_path: Path) -> None:
    rows = [pope_row(0)]
    table = write_table(tmp_path / "POPE.tsv", rows)
    before = table.read_bytes()
    benchmark = open_benchmark(load_task("POPE"), work_dir=tmp_path / "work", data_file=table)
    benchmark.question("0")
    assert table.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["POPE.tsv", "work"]
    kept = [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert [path.name for path in kept] == ["POPE_local.tsv"]
    assert kept[0].parent.name == benchmark.sha256[:16]


def test_the_published_set_is_taken_from_vlmevalkit_s_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # VLMEvalKit takes a file that is there if it has the published checksum; here the tiny one passes for it.
    table = DATA / TINY["POPE"]
    (tmp_path / "POPE.tsv").write_bytes(table.read_bytes())
    monkeypatch.setenv("LMUData", str(tmp_path))
    loader = vlmeval.load("vlmeval.dataset").ImageYORNDataset
    monkeypatch.setitem(loader.DATASET_MD5, "POPE", hashlib.md5(table.read_bytes()).hexdigest())
    benchmark = open_benchmark(load_task("POPE"), work_dir=tmp_path / "work")
    assert benchmark.indices == ("0", "1", "2", "3", "4", "5")
    assert benchmark.sha256 == hashlib.sha256(table.read_bytes()).hexdigest()
    assert benchmark.question("1").images


# --- which rows


def test_rows_are_played_in_the_table_s_order_and_limited(tmp_path: Path) -> None:
    assert tiny("POPE", tmp_path).indices == ("0", "1", "2", "3", "4", "5")
    assert tiny("POPE", tmp_path, limit=2).indices == ("0", "1")


def test_mmmu_plays_the_validation_rows_only_and_says_so(tmp_path: Path) -> None:
    benchmark = tiny("MMMU_DEV_VAL", tmp_path)
    assert benchmark.indices == ("1", "2", "3", "4", "5")
    assert any("1 rows of other splits than validation" in note for note in benchmark.notes)


def test_the_limit_counts_rows_of_the_reported_split(tmp_path: Path) -> None:
    rows = [mmmu_row(1, split="dev"), mmmu_row(2), mmmu_row(3)]
    assert opened("MMMU_DEV_VAL", tmp_path, rows, limit=1).indices == ("2",)


def test_a_table_of_another_size_than_the_published_one_is_noted(tmp_path: Path) -> None:
    assert "6 rows, where the published POPE has 5127" in tiny("POPE", tmp_path).notes


def test_clusters_are_what_the_task_file_says(tmp_path: Path) -> None:
    pope = tiny("POPE", tmp_path)
    assert pope.cluster("0") == pope.cluster("1") != pope.cluster("2") == pope.cluster("3")
    hallusion = tiny("HallusionBench", tmp_path)
    assert {hallusion.cluster(index) for index in hallusion.indices} == {"VS_tiny/0", "VS_tiny/1"}


# --- prompts


def test_yes_no_prompts_are_the_loader_s_picture_then_the_question(tmp_path: Path) -> None:
    question = tiny("POPE", tmp_path).question("2")
    assert isinstance(question.prompt[0], ImageRef)
    assert question.prompt[1:] == ("Is there a blue square in the image?",)
    assert question.answer_format.candidates == ("Yes", "No")
    assert (question.benchmark, question.index) == ("POPE", "2")


def test_multiple_choice_prompts_list_the_options(tmp_path: Path) -> None:
    question = tiny("MMStar", tmp_path).question("0")
    assert words(question).startswith("Question: Which shape is it?\nOptions:\nA. disc\nB. square\nC. star\n")
    assert question.answer_format.options[0] == ("A", "disc")


def test_mmmu_pictures_stand_where_the_text_names_them(tmp_path: Path) -> None:
    question = tiny("MMMU_DEV_VAL", tmp_path).question("1")
    red, blue = (load_image(base64.b64decode(cell)) for cell in read_pictures("tiny_mmmu.tsv", 0))
    assert question.prompt[:4] == ("Question: Compare ", blue, " with ", red)


def read_pictures(name: str, row: int) -> list[str]:
    import ast
    import csv

    with (DATA / name).open(newline="") as file:
        return list(ast.literal_eval(list(csv.DictReader(file, delimiter="\t"))[row]["image"]))


def test_an_mmmu_row_without_options_is_an_open_question(tmp_path: Path) -> None:
    benchmark = tiny("MMMU_DEV_VAL", tmp_path)
    assert benchmark.question("2").answer_format.kind == "open"
    assert benchmark.question("4").answer_format.kind == "choice"


def test_option_letters_need_not_be_contiguous(tmp_path: Path) -> None:
    row = mmstar_row(B="", G="a whale", answer="G")
    assert opened("MMStar", tmp_path, [row, mmstar_row(1, G="")]).question("0").answer_format.candidates == ("A", "C", "D", "G")


def test_an_option_that_pandas_takes_for_missing_is_kept_and_shown(tmp_path: Path) -> None:
    benchmark = tiny("MMStar", tmp_path)
    assert ("D", "None") in benchmark.question("0").answer_format.options
    assert "D. None\n" in words(benchmark.question("0"))
    assert benchmark.question("3").answer_format.options[2:] == (("C", "null"), ("D", "nan"))
    assert any("4 row(s) have an option that pandas takes for missing" in note for note in benchmark.notes)


def test_a_number_among_the_options_is_shown_as_written(tmp_path: Path) -> None:
    rows = [mmstar_row(0, A="1", B="007"), mmstar_row(1, A="", B="2", answer="B")]
    assert words(opened("MMStar", tmp_path, rows).question("0")).count("A. 1\nB. 007\n") == 1


@pytest.mark.parametrize(
    "text", ["=1+1", "line one\r\nline two", "tab\there\x01\x1f", "q" * 40_000, 'a "quoted" word', "ünï 東京 🐕", "None"]
)
def test_a_question_s_text_reaches_the_prompt_unchanged(tmp_path: Path, text: str) -> None:
    assert opened("POPE", tmp_path, [pope_row(question=text)]).question("0").prompt[1] == text


def test_nul_characters_are_left_out_of_a_prompt(tmp_path: Path) -> None:
    assert opened("POPE", tmp_path, [pope_row(question="Is there\x00 a dog?")]).question("0").prompt[1] == "Is there a dog?"


def test_no_file_name_and_no_answer_reach_a_question(tmp_path: Path) -> None:
    row = mmmu_row(answer="B", image_path="['undercover_secret.png']") | {"id": "secret_id"}
    question = opened("MMMU_DEV_VAL", tmp_path, [row]).question("1")
    assert "secret" not in repr(question)
    assert "answer" not in {entry.name for entry in dataclasses.fields(question)}


# --- pictures


def test_a_cell_that_points_at_another_row_gets_that_row_s_picture(tmp_path: Path) -> None:
    benchmark = tiny("POPE", tmp_path)
    assert benchmark.question("1").images == benchmark.question("0").images != benchmark.question("2").images


def test_a_reference_may_point_at_a_row_with_a_named_index(tmp_path: Path) -> None:
    rows = [pope_row("photo_a"), pope_row("photo_b", image="photo_a")]
    benchmark = opened("POPE", tmp_path, rows)
    assert benchmark.question("photo_b").images == benchmark.question("photo_a").images


def test_the_bytes_of_the_table_reach_the_question(tmp_path: Path) -> None:
    cell = picture("blue", (40, 30), kind="JPEG")
    question = opened("POPE", tmp_path, [pope_row(image=cell)]).question("0")
    assert question.images[0].data == base64.b64decode(cell)


def test_another_table_with_the_same_indices_shows_its_own_pictures(tmp_path: Path) -> None:
    first = opened("POPE", tmp_path, [pope_row(image=picture("red"))]).question("0")
    second = opened("POPE", tmp_path, [pope_row(image=picture("blue"))]).question("0")
    assert first.images != second.images


def test_pictures_are_resized_when_asked(tmp_path: Path) -> None:
    (image,) = tiny("POPE", tmp_path, image_size=(224, 224)).question("0").images
    assert (image.width, image.height) == (224, 224)


@pytest.mark.parametrize(
    "cell",
    [
        picture("red", mode="CMYK", kind="JPEG"),
        picture((0, 0, 255, 0), mode="RGBA"),  # type: ignore[arg-type]
        picture("red", (1, 1)),
        picture("red", (2000, 3)),
        picture("red", kind="GIF"),
    ],
    ids=["cmyk", "transparent", "1x1", "very wide", "gif"],
)
def test_odd_pictures_can_be_played(tmp_path: Path, cell: str) -> None:
    assert len(opened("POPE", tmp_path, [pope_row(image=cell)]).question("0").images) == 1


@pytest.mark.parametrize(
    "cell",
    [base64.b64encode(b"not a picture" * 10).decode(), "%" * 101, picture()[:60] + "A" * 40],
    ids=["not a picture", "not base64", "broken"],
)
def test_an_undecodable_picture_fails_when_its_question_is_opened_and_leaves_the_others(tmp_path: Path, cell: str) -> None:
    benchmark = opened("POPE", tmp_path, [pope_row(7, image=cell), pope_row(8)])
    assert benchmark.indices == ("7", "8")
    with pytest.raises(QuestionError, match="row 7"):
        benchmark.question("7")
    assert benchmark.question("8").images


@pytest.mark.parametrize("text", ["Look at <image 3>.", "Look at <image x>.", "Look at <image "])
def test_a_text_that_names_no_picture_of_its_row_fails_alone(tmp_path: Path, text: str) -> None:
    benchmark = opened("MMMU_DEV_VAL", tmp_path, [mmmu_row(1, question=text), mmmu_row(2)])
    with pytest.raises(QuestionError, match="row 1"):
        benchmark.question("1")
    assert benchmark.question("2").images


def test_a_row_without_text_fails_alone(tmp_path: Path) -> None:
    with pytest.raises(QuestionError, match="row 0: column question is empty"):
        opened("POPE", tmp_path, [pope_row(0, question=""), pope_row(1)]).question("0")


def test_a_multiple_choice_row_without_options_fails_alone(tmp_path: Path) -> None:
    rows = [mmstar_row(0, A="", B="", C="", D=""), mmstar_row(1)]
    with pytest.raises(QuestionError, match="row 0: no options"):
        opened("MMStar", tmp_path, rows).question("0")


# --- counterfactuals


@dataclasses.dataclass(frozen=True)
class Found:
    image: ImageRef
    position: int
    edit: tuple[tuple[str, str], ...] = (("type", "remove"),)


@dataclasses.dataclass
class Always:
    """Alters one position of every question, and remembers what it was asked."""

    position: int
    asked: list[tuple[str, int, tuple[str, ...]]] = dataclasses.field(default_factory=list)

    def find(self, index: str, pictures: Sequence[bytes], names: Sequence[str]) -> Found:
        self.asked.append((index, len(pictures), tuple(names)))
        return Found(load_image(base64.b64decode(picture("black"))), self.position)


def test_the_altered_prompt_differs_in_the_one_picture_only(tmp_path: Path) -> None:
    source = Always(position=1)
    question = tiny("MMMU_DEV_VAL", tmp_path, counterfactuals=source).question("1")
    assert question.altered is not None
    changed = [here for here, (one, other) in enumerate(zip(question.prompt, question.altered.prompt, strict=True)) if one != other]
    # The text names picture 2 first.
    assert changed == [1]
    assert question.altered.edit == (("type", "remove"),)
    assert source.asked == [("1", 2, ("v1_1.png", "v1_2.png"))]


def test_altering_a_picture_that_is_not_shown_is_no_counterfactual(tmp_path: Path) -> None:
    row = mmmu_row(image=str([picture("red"), picture("blue")]), image_path="['a.png', 'b.png']")
    assert opened("MMMU_DEV_VAL", tmp_path, [row], counterfactuals=Always(position=1)).question("1").altered is None


@pytest.mark.parametrize("name", sorted(ROW))
def test_pictures_go_by_the_names_that_the_loader_gives_them(tmp_path: Path, name: str) -> None:
    source = Always(position=0)
    benchmark = opened(name, tmp_path, [ROW[name](3)], counterfactuals=source)
    benchmark.question("3")
    dataset = benchmark._dataset  # type: ignore[attr-defined]
    dataset.img_root = str(tmp_path / "dumped")
    theirs = [Path(path).name for path in dataset.dump_image(dataset.data.iloc[0])]
    assert [list(names) for _, _, names in source.asked] == [theirs]


# --- the photographs


@pytest.mark.skipif(not SHARED.is_dir(), reason="the photo sets in ../shared/data are not there")
@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("POPE", "photo_pope", 120),
        ("HallusionBench", "photo_hallusion", 40),
        ("MMStar", "photo_mmstar", 60),
        ("MMMU_DEV_VAL", "photo_mmmu", 16),
    ],
)
def test_every_question_of_the_photo_sets_opens(tmp_path: Path, name: str, file: str, rows: int) -> None:
    benchmark = open_benchmark(load_task(name), work_dir=tmp_path, data_file=SHARED / f"{file}.tsv")
    assert len(benchmark.indices) == rows
    for index in benchmark.indices:
        question = benchmark.question(index)
        assert question.images and words(question).strip()


def test_importing_vlmevalkit_leaves_gradients_on() -> None:
    code = (
        "from mug_eval.benchmarks import vlmeval; vlmeval.load('vlmeval.config'); "
        "import torch; assert torch.is_grad_enabled(), 'models cannot be trained beside VLMEvalKit'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=900)
