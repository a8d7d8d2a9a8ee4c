"""A stranger's table is checked before VLMEvalKit may evaluate a cell of it, and the message says which row and column."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tables import mmmu_row, mmstar_row, picture, pope_row, write_table

from mug_eval.benchmarks import Benchmark, load_task, open_benchmark
from mug_eval.errors import RunStopped, UserError


def open_rows(name: str, folder: Path, rows: Sequence[dict[str, Any]]) -> Benchmark:
    return open_file(name, folder, write_table(folder / "table.tsv", rows))


def open_file(name: str, folder: Path, file: Path) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=folder / "work", data_file=file)


def refused(name: str, folder: Path, rows: Sequence[dict[str, Any]], *said: str) -> None:
    with pytest.raises(UserError) as caught:
        open_rows(name, folder, rows)
    message = str(caught.value)
    assert "\n" not in message
    for part in said:
        assert part in message


# --- files


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--data-file .*none\.tsv: No such file"):
        open_file("POPE", tmp_path, tmp_path / "none.tsv")


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data-file"):
        open_file("POPE", tmp_path, tmp_path)


def test_an_empty_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").touch()
    with pytest.raises(UserError, match="empty"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


def test_commas_are_not_tabs(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("index,question,answer,category,image\n0,a,Yes,random,xyz\n")
    with pytest.raises(UserError, match="separated by tabs"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_bytes(b"index\tquestion\n\xff\xfe\t\xfa\n")
    with pytest.raises(UserError, match=r"table\.tsv: not a table"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


def test_a_ragged_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("index\tquestion\tanswer\tcategory\timage\n0\ta\tYes\tr\tx\n1\ta\tYes\tr\tx\ty\tz\n")
    with pytest.raises(UserError, match=r"table\.tsv: .*line 3"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


def test_rows_with_one_cell_more_than_the_header_are_not_shifted(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("index\tquestion\tanswer\tcategory\timage\n0\ta\tYes\trandom\tx\ty\n")
    with pytest.raises(UserError, match="more cells than its header"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


@pytest.mark.parametrize("column", ["question", "answer", "image", "category", "index"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    row = pope_row()
    del row[column]
    refused("POPE", tmp_path, [row], f"no column {column};")


def test_a_header_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text("index\tquestion\tanswer\tcategory\timage\n")
    with pytest.raises(UserError, match="no rows"):
        open_file("POPE", tmp_path, tmp_path / "table.tsv")


def test_a_table_without_the_reported_split_is_refused(tmp_path: Path) -> None:
    refused("MMMU_DEV_VAL", tmp_path, [mmmu_row(split="dev")], "no row has 'validation' in column split")


# --- index


def test_a_duplicate_index_is_named_with_both_rows(tmp_path: Path) -> None:
    refused("POPE", tmp_path, [pope_row(5), pope_row(6), pope_row(5)], "rows 1 and 3 have the same index '5'")


def test_an_empty_index_is_refused(tmp_path: Path) -> None:
    refused("POPE", tmp_path, [pope_row("a"), pope_row("")], "row 2: column index is empty")


def test_numbers_and_names_are_not_mixed(tmp_path: Path) -> None:
    refused("MMStar", tmp_path, [mmstar_row(1), mmstar_row("a")], "mixes numbers and names")


@pytest.mark.parametrize("index", ["1.5", "0x10", "1_000", "a b", "a.b", "a;b", "True", "(1,)", "é", "9" * 30, "../a"])
def test_an_index_that_python_could_read_otherwise_is_refused(tmp_path: Path, index: str) -> None:
    refused("POPE", tmp_path, [pope_row(index), pope_row("other")], "row 1", "index", "not allowed")


def test_an_index_without_the_scorer_s_parts_is_refused(tmp_path: Path) -> None:
    row = pope_row("VS_a_1_0_1") | {"l2-category": "VS_a"}
    refused("HallusionBench", tmp_path, [row], "VS_a_1_0_1", "fewer than 6 parts")


# --- no cell is evaluated


@pytest.mark.parametrize(
    ("name", "column", "cell"),
    [
        ("POPE", "index", "{code}"),
        ("POPE", "image", "[{code}, '{padding}']"),
        ("MMMU_DEV_VAL", "image", "['{padding}', {code}]"),
        ("MMMU_DEV_VAL", "image_path", "[{code}]"),
        ("MMMU_DEV_VAL", "image_path", "[x for x in [{code}]]"),
    ],
)
def test_code_in_a_cell_is_refused_and_not_run(tmp_path: Path, name: str, column: str, cell: str) -> None:
    marker = tmp_path / "it_ran"
    code = f"open({str(marker)!r}, 'w').close()"
    make = {"POPE": pope_row, "MMMU_DEV_VAL": mmmu_row}[name]
    refused(name, tmp_path, [make(1) | {column: cell.format(code=code, padding="A" * 80)}, make(2)], column)
    assert not marker.exists()


@pytest.mark.parametrize(
    "cell", ["[" * 5000 + "]" * 5000, "[1, 2]" + " " * 80 + "]", "[]" + " " * 70 + "[]", "[b'" + "A" * 80 + "']"]
)
def test_a_list_that_holds_no_texts_is_refused(tmp_path: Path, cell: str) -> None:
    refused("POPE", tmp_path, [pope_row(0, image=cell)], "row 1 (index 0): column image")


@pytest.mark.parametrize("text", ["__import__('os').abort()", "[exit()]", "=cmd|' /C calc'!A0", "{0.__class__}", "%s%n"])
def test_text_that_looks_like_code_is_only_text(tmp_path: Path, text: str) -> None:
    benchmark = open_rows("POPE", tmp_path, [pope_row(0, question=text, category=text)])
    assert benchmark.question("0").prompt[1] == text
    benchmark.write_predictions(tmp_path / "p.tsv", {"0": "Yes"})
    assert benchmark.score(tmp_path / "p.tsv", "exact_matching").headline["acc"] == 100


# --- pictures


@pytest.mark.parametrize("cell", ["7", "nothing", " ", "0"])
def test_a_reference_to_no_picture_is_refused(tmp_path: Path, cell: str) -> None:
    refused("POPE", tmp_path, [pope_row(0, image=cell), pope_row(1)], "row 1 (index 0): column image points at row")


def test_a_reference_to_a_row_without_a_picture_is_refused(tmp_path: Path) -> None:
    refused("POPE", tmp_path, [pope_row(0), pope_row(1, image=""), pope_row(2, image="1")], "row 3 (index 2)", "'1'")


def test_rows_without_a_picture_are_dropped_with_a_note(tmp_path: Path) -> None:
    rows = [pope_row(0), *(pope_row(index, image="") for index in range(1, 9))]
    benchmark = open_rows("POPE", tmp_path, rows)
    assert benchmark.indices == ("0",)
    assert "8 row(s) without a picture are dropped by the loader: 1, 2, 3, 4, 5 and 3 more" in benchmark.notes


def test_a_table_without_any_picture_is_refused(tmp_path: Path) -> None:
    refused("POPE", tmp_path, [pope_row(image="")], "column image is empty in every row")


def test_a_picture_more_than_there_are_names_is_refused(tmp_path: Path) -> None:
    row = mmmu_row(image=str([picture(), picture("blue")]))
    refused("MMMU_DEV_VAL", tmp_path, [row], "row 1 (index 1): 2 picture(s)", "1 name(s)")


def test_an_empty_picture_name_is_refused(tmp_path: Path) -> None:
    refused("MMMU_DEV_VAL", tmp_path, [mmmu_row(1), mmmu_row(2, image_path="")], "row 2 (index 2): column image_path")


def test_a_picture_s_name_cannot_lead_out_of_the_work_dir(tmp_path: Path) -> None:
    row = mmmu_row(image_path=f"['{tmp_path}/escaped.png']")
    benchmark = open_rows("MMMU_DEV_VAL", tmp_path, [row])
    assert benchmark.question("1").images
    assert not list(tmp_path.rglob("*.png"))


# --- answers and labels


@pytest.mark.parametrize("category", ["random,,popular", "random,", ",random", "random, ,popular", ","])
def test_an_empty_part_of_a_category_is_refused(tmp_path: Path, category: str) -> None:
    refused("POPE", tmp_path, [pope_row(5), pope_row(6, category=category)], "row 2 (index 6): column category", "empty part")


def test_a_category_in_parts_is_taken(tmp_path: Path) -> None:
    assert open_rows("POPE", tmp_path, [pope_row(5, category="random,popular")]).indices == ("5",)


@pytest.mark.parametrize(("cell", "gold"), [("A ", "A"), ("A\r", "A"), (" B\r\n", "B")])
def test_stray_spaces_around_an_answer_are_taken_away_with_a_note(tmp_path: Path, cell: str, gold: str) -> None:
    benchmark = open_rows("MMMU_DEV_VAL", tmp_path, [mmmu_row(1, answer=cell), mmmu_row(2, answer="B")])
    assert any("1 answer(s) with stray spaces" in note for note in benchmark.notes)
    benchmark.write_predictions(tmp_path / "p.tsv", {"1": gold, "2": "B"})
    assert benchmark.score(tmp_path / "p.tsv", "exact_matching").headline == {"validation": 100}


@pytest.mark.parametrize("cell", ["yes", "YES ", "Yes"])
def test_yes_in_any_case_is_yes(tmp_path: Path, cell: str) -> None:
    benchmark = open_rows("POPE", tmp_path, [pope_row(answer=cell)])
    benchmark.write_predictions(tmp_path / "p.tsv", {"0": "Yes"})
    assert benchmark.score(tmp_path / "p.tsv", "exact_matching").headline["acc"] == 100


def test_an_answer_that_no_choice_has_is_noted(tmp_path: Path) -> None:
    rows = [mmstar_row(0, answer="E"), mmstar_row(1)]
    assert any("always scored wrong: 0" in note for note in open_rows("MMStar", tmp_path, rows).notes)


def test_an_open_question_with_a_list_of_answers_is_noted(tmp_path: Path) -> None:
    rows = [mmmu_row(1, A="", B="", answer="['3', 'three']"), mmmu_row(2)]
    assert any("list several answers" in note for note in open_rows("MMMU_DEV_VAL", tmp_path, rows).notes)


def test_an_empty_label_is_refused(tmp_path: Path) -> None:
    refused("MMStar", tmp_path, [mmstar_row(0), mmstar_row(1, category="")], "row 2 (index 1): column category is empty")


def test_a_label_that_pandas_takes_for_missing_is_a_label(tmp_path: Path) -> None:
    benchmark = open_rows("MMStar", tmp_path, [mmstar_row(0, category="None"), mmstar_row(1, category="x", answer="B")])
    benchmark.write_predictions(tmp_path / "p.tsv", {"0": "A", "1": "A"})
    assert benchmark.score(tmp_path / "p.tsv", "exact_matching").extra["categories"] == {
        "None": {"Overall": 100},
        "x": {"Overall": 0},
    }


# --- the machine


def test_without_the_published_set_and_without_a_network_the_user_is_told_of_data_file(tmp_path: Path) -> None:
    # In a process of its own: an empty LMUData, and a proxy at which nobody listens.
    code = (
        "from pathlib import Path; from mug_eval.benchmarks import *\n"
        f"open_benchmark(load_task('POPE'), work_dir=Path({str(tmp_path)!r}))"
    )
    nobody = "http://127.0.0.1:9"
    environment = {**os.environ, "LMUData": str(tmp_path), "https_proxy": nobody, "http_proxy": nobody, "no_proxy": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=900)
    assert re.search(r"UserError: POPE: VLMEvalKit could not load .* --data-file POPE=FILE$", done.stderr, re.MULTILINE), (
        done.stderr[-2000:]
    )


def test_a_full_disk_stops_the_run_with_one_line(tmp_path: Path) -> None:
    import signal

    table = write_table(tmp_path / "table.tsv", [pope_row(image=picture() + "A" * 200_000)])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(RunStopped, match="cannot write"):
            open_file("POPE", tmp_path, table)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert not [path for path in (tmp_path / "work").rglob("*") if path.is_file()]
