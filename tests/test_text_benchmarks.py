"""Benchmarks without pictures: the published formats, strangers' rows, what is put to a model and what is not, scores and statistics."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scripted import TRUE
from servers import ChatServer, completion

from mug_eval.benchmarks import Benchmark, load_task, open_benchmark
from mug_eval.cli import main
from mug_eval.cli.listing import listing
from mug_eval.errors import QuestionError, UserError
from mug_eval.methods.conversation import SYSTEM, SYSTEM_OF_TEXT, statements, turn
from mug_eval.question import Answer, Unparsed
from mug_eval.statistics.definition import sums_of
from mug_eval.statistics.runs import read_run
from mug_eval.text_benchmarks.f1 import NO_ANSWER, agreement, f1, overlap, references_of
from mug_eval.text_benchmarks.measures import measure

DATA = Path(__file__).parent / "data" / "text"
FILES = {
    "CommonsenseQA": "commonsense_qa.jsonl",
    "BoolQ": "boolq.jsonl",
    "CosmosQA": "cosmos_qa.csv",
    "HoVer": "hover.json",
    "FEVER": "fever.jsonl",
    "QuAC": "quac.json",
}
EVERY = pytest.mark.parametrize("name", list(FILES))
WITH_OPTIONS = [name for name in FILES if name != "QuAC"]


def opened(name: str, file: Path | None = None, limit: int | None = None) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=Path("unused"), data_file=file or DATA / FILES[name], limit=limit)


def json_rows(name: str) -> list[dict[str, Any]]:
    """The rows of our own file, as objects in the published format."""
    text = (DATA / FILES[name]).read_text(encoding="utf-8")
    if name == "CosmosQA":
        return list(csv.DictReader(text.splitlines()))
    if name == "QuAC":
        return [json.loads(text)]
    return json.loads(text) if name == "HoVer" else [json.loads(line) for line in text.splitlines()]


def json_lines(folder: Path, *rows: Any) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def without(row: dict[str, Any], field: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != field}


# --- the published formats


@EVERY
def test_our_own_file_has_twenty_questions_without_pictures_and_in_its_own_order(name: str) -> None:
    benchmark = opened(name)
    assert len(benchmark.indices) >= 20 and benchmark.name == name
    for index in benchmark.indices:
        question = benchmark.question(index)
        assert question.images == () and question.altered is None and question.index == index
    assert opened(name, limit=3).indices == benchmark.indices[:3]


@pytest.mark.parametrize("name", WITH_OPTIONS)
def test_options_stand_in_the_prompt_in_the_files_order(name: str) -> None:
    benchmark = opened(name)
    for index in benchmark.indices:
        question = benchmark.question(index)
        listed = "\n".join(f"{letter}. {text}" for letter, text in question.answer_format.options)
        assert f"Options:\n{listed}" in question.prompt[0]
    first = {
        "CommonsenseQA": ["go to the door", "feed the cat", "wash the car", "plant a tree", "buy a house"],
        "CosmosQA": [json_rows("CosmosQA")[0][f"answer{place}"] for place in range(4)],
        "FEVER": ["True", "False", "Not enough information"],
    }
    options = [text for _, text in benchmark.question(benchmark.indices[0]).answer_format.options]
    assert options == first.get(name, ["True", "False"])


def test_the_right_letter_is_the_one_that_the_label_means() -> None:
    gold = {name: _gold(name) for name in WITH_OPTIONS}
    assert gold["CommonsenseQA"][:3] == ["A", "B", "C"]
    assert gold["BoolQ"][:3] == ["A", "B", "B"], "true, false, false"
    assert gold["CosmosQA"][:3] == ["B", "D", "A"], "1, 3, 0"
    assert gold["HoVer"][:2] == ["A", "B"], "SUPPORTED, NOT_SUPPORTED"
    assert gold["FEVER"][:3] == ["A", "B", "C"], "SUPPORTS, REFUTES, NOT ENOUGH INFO"


def _gold(name: str) -> list[str]:
    """The letter that is scored right, found by trying all."""
    benchmark = opened(name)
    found = []
    for index in benchmark.indices:
        letters = benchmark.question(index).answer_format.candidates
        right = [letter for letter in letters if _scored(benchmark, {index: letter}).right[index]]
        assert len(right) == 1
        found += right
    return found


def _scored(benchmark: Benchmark, predictions: dict[str, str], folder: Path | None = None) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        path = (folder or Path(made)) / "predictions.tsv"
        benchmark.write_predictions(path, predictions)
        return benchmark.score(path, "exact_matching")


def test_cosmos_qa_is_the_same_from_json_lines_as_from_its_csv(tmp_path: Path) -> None:
    rows = [row | {"label": int(row["label"])} for row in json_rows("CosmosQA")]
    lines, sheet = opened("CosmosQA", json_lines(tmp_path, *rows)), opened("CosmosQA")
    assert [lines.question(index) for index in lines.indices] == [sheet.question(index) for index in sheet.indices]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_file_may_be_one_line_or_indented(tmp_path: Path, indent: int | None) -> None:
    for name in ("HoVer", "QuAC"):
        whole = json.loads((DATA / FILES[name]).read_text(encoding="utf-8"))
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(whole, indent=indent), encoding="utf-8")
        assert opened(name, path).indices == opened(name).indices


def test_quac_shows_the_questions_asked_before_and_no_answer_to_them() -> None:
    benchmark = opened("QuAC")
    first, second = (benchmark.question(index).prompt[0] for index in benchmark.indices[:2])
    assert "Asked before" not in first and "Asked before:\n- Where was she born?\n" in second
    assert NO_ANSWER not in second.split("Question:")[0], "the mark at the end of a section is not part of its text"


def test_rows_that_depend_on_one_another_are_one_cluster() -> None:
    counts = {name: len({opened(name).cluster(index) for index in opened(name).indices}) for name in FILES}
    assert counts["CommonsenseQA"] == len({row["question"]["question_concept"] for row in json_rows("CommonsenseQA")})
    assert counts["BoolQ"] == len({row["passage"] for row in json_rows("BoolQ")}) < len(json_rows("BoolQ"))
    assert counts["CosmosQA"] == len({row["context"] for row in json_rows("CosmosQA")}) < len(json_rows("CosmosQA"))
    assert counts["QuAC"] == 4, "conversations"
    assert counts["HoVer"] == len(json_rows("HoVer")) and counts["FEVER"] == len(json_rows("FEVER"))


def test_another_file_has_another_hash_and_the_same_has_the_same(tmp_path: Path) -> None:
    rows = json_rows("BoolQ")
    assert opened("BoolQ", json_lines(tmp_path, *rows)).sha256 == opened("BoolQ").sha256
    assert opened("BoolQ", json_lines(tmp_path, *rows[1:])).sha256 != opened("BoolQ").sha256


# --- the gold answer never reaches a prompt


def turned(name: str) -> Any:
    """The rows of our own file with other gold answers, and nothing else changed."""
    rows = json_rows(name)
    for place, row in enumerate(rows):
        if name == "CommonsenseQA":
            row["answerKey"] = "ABCDE"["EABCD".index(row["answerKey"])]
        elif name == "BoolQ":
            row["answer"] = not row["answer"]
        elif name == "CosmosQA":
            row["label"] = (int(row["label"]) + 1) % 4
        elif name == "HoVer":
            row["label"] = "NOT_SUPPORTED" if row["label"] == "SUPPORTED" else "SUPPORTED"
            row["supporting_facts"] = [["UNSEEN-EVIDENCE", place]]
        elif name == "FEVER":
            row["label"] = "SUPPORTS" if row["label"] == "REFUTES" else "REFUTES"
            row["evidence"] = [[[1, 2, "UNSEEN-EVIDENCE", 3]]]
        else:
            for article in row["data"]:
                for asked in article["paragraphs"][0]["qas"]:
                    # One reference, as before two that agree: the same rows are played.
                    asked["answers"] = [{"text": "UNSEEN-ANSWER", "answer_start": 0}]
                    asked["orig_answer"] = asked["answers"][0]
                    asked["yesno"], asked["followup"] = "y", "n"
    return rows


@EVERY
@pytest.mark.parametrize("method", ["cfmad", "direct", "mad-judge"])
def test_every_call_is_the_same_whatever_the_gold_answer_is(tmp_path: Path, name: str, method: str) -> None:
    asked = []
    rows = turned(name)
    other = json_lines(tmp_path, *rows)
    with ChatServer(answering("Answer: in the village")) as server:
        for place, file in enumerate((DATA / FILES[name], other)):
            argv = run_argv(server, tmp_path / str(place), name, method, file=file)
            assert main([*argv, "--limit", "2", "--concurrency", "1"]) == 0
            asked.append([json.dumps(body["messages"]) for body in server.requests])
            server.requests.clear()
    same, turned_round = asked
    assert len(same) >= 2 and same == turned_round
    assert "UNSEEN" not in "".join(turned_round)


# --- strangers' rows

Q = "CommonsenseQA"
ROW = json_rows(Q)[0]


@pytest.mark.parametrize(
    ("name", "rows", "said"),
    [
        (Q, ["{broken"], "line 1: not JSON"),
        (Q, [ROW, '{"id": "x", '], "line 2: not JSON"),
        (Q, [ROW, "NaN"], "line 2: not JSON"),
        (Q, [ROW, "[" * 100_000], "line 2: not JSON"),
        (Q, [ROW, "7"], "line 2: the row is a number, not an object"),
        (Q, [without(ROW, "id")], "line 1: field id is missing"),
        (Q, [ROW | {"id": ["x"]}], "field id is a list"),
        (Q, [ROW | {"id": "two\nlines"}], "field id must be"),
        (Q, [without(ROW, "answerKey")], "field answerKey is missing"),
        (Q, [ROW | {"answerKey": 3}], "field answerKey is a number, not text"),
        (Q, [ROW | {"answerKey": ""}], "field answerKey is empty"),
        (Q, [ROW, ROW], "line 2: the row has the name 'own-00', which line 1 has too"),
        ("BoolQ", [json_rows("BoolQ")[0] | {"answer": "true"}], "field answer is text, not true or false"),
        ("CosmosQA", [json_rows("CosmosQA")[0] | {"label": 4}], "field label must be 0, 1, 2 or 3"),
        ("CosmosQA", [json_rows("CosmosQA")[0] | {"label": True}], "field label must be 0, 1, 2 or 3"),
        ("CosmosQA", [without(json_rows("CosmosQA")[0], "label")], "field label is missing"),
        ("HoVer", [json_rows("HoVer")[0] | {"label": "SUPPORTS"}], "not one of SUPPORTED, NOT_SUPPORTED"),
        ("FEVER", [json_rows("FEVER")[0] | {"label": None}], "field label is null, not one of SUPPORTS"),
        ("QuAC", [{"data": {}}], "field data is an object, not a list"),
        ("QuAC", [{"data": [{"paragraphs": ["x"]}]}], "the row is text, not an object"),
        (
            "QuAC",
            [{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "1", "question": "q", "answers": []}]}]}]}],
            "no answers",
        ),
    ],
)
def test_a_row_that_cannot_be_scored_refuses_the_file_and_says_where(tmp_path: Path, name: str, rows: list[Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        opened(name, json_lines(tmp_path, *rows))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def choices(count: int) -> list[dict[str, str]]:
    return [{"label": chr(65 + place % 26), "text": f"option {place}"} for place in range(count)]


def with_choices(made: Any) -> dict[str, Any]:
    return ROW | {"id": "bad", "question": ROW["question"] | {"choices": made}}


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (with_choices([]), "no options"),
        (with_choices(choices(100)), "100 options, and there are 26 letters"),
        (with_choices("A B C"), "field question.choices is text, not a list"),
        (with_choices([{"label": "A", "text": " "}]), "field text is empty"),
        (with_choices([{"label": "A"}]), "field text is missing"),
        (with_choices([{"label": "A", "text": "x"}, {"label": "A", "text": "y"}]), "two options have the label A"),
        (with_choices([{"label": "1", "text": "x"}]), "no letter A to Z"),
        (ROW | {"id": "bad", "question": without(ROW["question"], "stem")}, "field question.stem is missing"),
        (ROW | {"id": "bad", "question": ROW["question"] | {"stem": 5}}, "field question.stem is a number, not text"),
        (ROW | {"id": "bad", "question": "why?"}, "question is text, not an object"),
    ],
)
def test_a_question_that_cannot_be_put_is_owed_and_the_others_are_played(tmp_path: Path, row: dict[str, Any], said: str) -> None:
    benchmark = opened(Q, json_lines(tmp_path, ROW, row))
    assert benchmark.indices == ("own-00", "bad")
    assert benchmark.question("own-00").prompt
    with pytest.raises(QuestionError, match="row bad: ") as owed:
        benchmark.question("bad")
    assert said in str(owed.value)


def test_twenty_six_options_can_be_put_and_keep_their_order(tmp_path: Path) -> None:
    backwards = choices(26)[::-1]
    benchmark = opened(Q, json_lines(tmp_path, with_choices(backwards)))
    assert benchmark.question("bad").answer_format.candidates == tuple("ZYXWVUTSRQPONMLKJIHGFEDCBA")


def test_an_answer_that_is_no_option_is_noted_and_always_wrong(tmp_path: Path) -> None:
    benchmark = opened(Q, json_lines(tmp_path, ROW | {"answerKey": "F"}))
    assert any("none of the options" in note and "own-00" in note for note in benchmark.notes)
    assert _scored(benchmark, {"own-00": "A"}).headline == {"acc": 0.0}


def test_texts_that_no_file_takes_are_cleaned_and_come_back_from_the_predictions_file(tmp_path: Path) -> None:
    text = 'tab\there, "quotes",\r\nline\u2028end, half \ud800 of a pair, nul \x00 byte'
    row = ROW | {
        "question": ROW["question"] | {"stem": text, "choices": [{"label": "A", "text": text}, {"label": "B", "text": "None"}]}
    }
    benchmark = opened(Q, json_lines(tmp_path, row))
    shown = benchmark.question("own-00").prompt[0]
    assert "\x00" not in shown and "\ud800" not in shown and 'tab\there, "quotes"' in shown
    assert _scored(benchmark, {"own-00": "A"}, tmp_path).right == {"own-00": True}
    (back,) = csv.DictReader((tmp_path / "predictions.tsv").open(encoding="utf-8", newline=""), delimiter="\t")
    assert back["A"] == dict(benchmark.question("own-00").answer_format.options)["A"] and back["B"] == "None"


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "empty"), (b"\n \n", "empty"), (b"\xff\xfe", "no UTF-8 at byte 0"), (b"[]", "no rows")]
)
def test_a_file_that_is_none_is_refused_in_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        opened(Q, path)


def test_a_csv_line_with_a_missing_or_a_surplus_cell_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "valid.csv"
    head = "id,context,question,answer0,answer1,answer2,answer3,label\n"
    path.write_text(f"{head}a,c,q,0,1,2,3\n")
    with pytest.raises(UserError, match="line 2: field label is missing"):
        opened("CosmosQA", path)
    path.write_text(f"{head}a,c,q,0,1,2,3,1,9\n")
    with pytest.raises(UserError, match="line 2: more cells"):
        opened("CosmosQA", path)


# --- the hub


def test_rows_of_the_hub_become_the_same_questions_as_the_published_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    tables = {name: datasets.Dataset.from_list(rows, features=features) for name, (rows, features) in hub_tables(datasets).items()}

    def load_dataset(hub: str, config: str | None, *, split: str, revision: str | None) -> Any:
        return tables[hub]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)  # the library is real, only its door to the network is not
    for name in FILES:
        task = load_task(name)
        assert task.text is not None
        published, hub = opened(name), open_benchmark(task, work_dir=tmp_path)
        assert [hub.question(index) for index in hub.indices] == [published.question(index) for index in published.indices], name
        gold = [dict.fromkeys(hub.indices, letter) for letter in "ABC"]
        assert [_scored(hub, one).right for one in gold] == [_scored(published, one).right for one in gold], name
        assert (name == "FEVER") == any("say what another says" in note for note in hub.notes), name


def hub_tables(datasets: Any) -> dict[str, tuple[list[dict[str, Any]], Any]]:
    """Our own rows in the columns of the hub, as its pages show them."""
    common = [
        {
            "id": row["id"],
            "question": row["question"]["stem"],
            "question_concept": row["question"]["question_concept"],
            "choices": {key: [one[key] for one in row["question"]["choices"]] for key in ("label", "text")},
            "answerKey": row["answerKey"],
        }
        for row in json_rows("CommonsenseQA")
    ]
    hover = [
        {name: row[name] for name in ("uid", "claim", "num_hops")} | {"label": int(row["label"] == "SUPPORTED")}
        for row in json_rows("HoVer")
    ]
    labels = datasets.Features(
        {
            "uid": datasets.Value("string"),
            "claim": datasets.Value("string"),
            "num_hops": datasets.Value("int32"),
            "label": datasets.ClassLabel(names=["NOT_SUPPORTED", "SUPPORTED"]),
        }
    )
    # A row for each piece of evidence.
    fever = [
        {name: row[name] for name in ("id", "label", "claim")} | {"evidence_id": piece}
        for row in json_rows("FEVER")
        for piece in (1, 2)
    ]
    quac = []
    for article in json_rows("QuAC")[0]["data"]:
        (part,) = article["paragraphs"]
        quac.append(
            {
                "dialogue_id": part["id"],
                "wikipedia_page_title": article["title"],
                "background": article["background"],
                "section_title": article["section_title"],
                "context": part["context"],
                "turn_ids": [asked["id"] for asked in part["qas"]],
                "questions": [asked["question"] for asked in part["qas"]],
                "answers": {"texts": [[one["text"] for one in asked["answers"]] for asked in part["qas"]]},
            }
        )
    cosmos = [row | {"label": int(row["label"])} for row in json_rows("CosmosQA")]
    boolq = [without(row, "title") for row in json_rows("BoolQ")]
    return {
        "tau/commonsense_qa": (common, None),
        "google/boolq": (boolq, None),
        "allenai/cosmos_qa": (cosmos, None),
        "hover-nlp/hover": (hover, labels),
        "fever/fever": (fever, None),
        "allenai/quac": (quac, None),
    }


def test_a_hub_that_cannot_be_reached_is_said_in_one_line_that_names_the_way_out(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound, but never listening: whoever calls is refused
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "HF_HOME": str(tmp_path),
            "HF_ENDPOINT": f"http://127.0.0.1:{nobody.getsockname()[1]}",
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        argv = ["-m", "mug_eval", "run", "--method", "direct", "--backbone", "openai:toy", "--base-url", "http://127.0.0.1:9/v1"]
        done = subprocess.run(
            [sys.executable, *argv, "--data", "BoolQ", "--work-dir", str(tmp_path / "out"), "--quiet"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=900,
        )
    assert done.returncode == 2, done.stderr
    assert "google/boolq could not be loaded from the hub" in done.stderr and "--data-file BoolQ=dev.jsonl" in done.stderr
    assert "Traceback" not in done.stderr and str(tmp_path) not in done.stderr and len(done.stderr.strip().splitlines()) == 1


# --- QuAC's measure


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("The village of Ostrel.", "village of Ostrel", 1.0),  # case, articles and full stops do not count
        ("village", "the village of Ostrel", 0.5),  # 1 of 1 and 1 of 3 words
        ("Ostrel Ostrel", "Ostrel", 2 / 3),  # a word counts as often as both have it
        ("Anton Brell", "the harbour", 0.0),
        (NO_ANSWER, NO_ANSWER, 1.0),
        ("cannotanswer", NO_ANSWER, 0.0),
        ("", "the village", 0.0),
        ("the", "a", 0.0),  # nothing is left of either
    ],
)
def test_overlap_counts_words(text: str, reference: str, expected: float) -> None:
    assert overlap(text, reference) == pytest.approx(expected)


def test_references_are_those_of_the_majority_and_a_tie_says_that_there_is_no_answer() -> None:
    assert references_of(["x", "y", NO_ANSWER]) == ("x", "y")
    assert references_of(["x", NO_ANSWER]) == (NO_ANSWER,)
    assert references_of([NO_ANSWER, NO_ANSWER, "x"]) == (NO_ANSWER,)


def test_each_reference_is_left_out_in_turn() -> None:
    # Worked by hand: the text equals the first; when that one is left out, the best of the others shares 1 of 1 with 1 of 2 words.
    references = ("red", "red house", "blue")
    assert f1("red", references) == pytest.approx((2 / 3 + 1 + 1) / 3)
    # People: the first two reach 2/3 with each other, the third nothing.
    assert agreement(references) == pytest.approx((2 / 3 + 2 / 3 + 0) / 3)
    assert f1("red", ("red house",)) == pytest.approx(2 / 3) and agreement(("red house",)) == 1.0


def test_quac_scores_overlap_questions_and_conversations(tmp_path: Path) -> None:
    def dialogue(name: str, *references: list[str]) -> dict[str, Any]:
        asked = [
            {"id": f"{name}_q#{turn}", "question": "what?", "answers": [{"text": text} for text in texts]}
            for turn, texts in enumerate(references)
        ]
        return {"title": "t", "section_title": "s", "background": "", "paragraphs": [{"id": name, "context": "c", "qas": asked}]}

    data = [
        dialogue("C_1", ["red house"], [NO_ANSWER]),
        dialogue("C_2", ["blue"], ["one two", "three four"]),
        dialogue("C_3", ["green"]),
    ]
    benchmark = opened("QuAC", json_lines(tmp_path, {"data": data}))
    assert benchmark.indices == ("C_1_q#0", "C_1_q#1", "C_2_q#0", "C_3_q#0"), "a row on which people disagree does not count"
    answers = {"C_1_q#0": "the red", "C_1_q#1": NO_ANSWER, "C_2_q#0": "Blue!", "C_3_q#0": ""}
    scores = _scored(benchmark, answers)
    assert scores.headline == pytest.approx({"HEQ-Q": 50.0, "F1": 100 * (2 / 3 + 1 + 1 + 0) / 4, "HEQ-D": 100 / 3})
    assert scores.right == {"C_1_q#0": False, "C_1_q#1": True, "C_2_q#0": True, "C_3_q#0": False}
    assert benchmark.prediction("C_3_q#0", Unparsed("nothing")) == "", "no answer overlaps with nothing"
    assert benchmark.prediction("C_3_q#0", Answer(" Half \ud800")) == "Half ?"


def test_a_conversation_is_one_however_its_rows_are_scattered_and_counts_only_if_no_answer_is_worse(tmp_path: Path) -> None:
    def part(name: str, turn: int) -> dict[str, Any]:
        asked = {"id": f"{name}_q#{turn}", "question": "what?", "answers": [{"text": "red"}]}
        paragraph = {"id": name, "context": "c", "qas": [asked]}
        return {"title": "t", "section_title": "s", "background": "", "paragraphs": [paragraph]}

    data = [part("C_1", 0), part("C_2", 0), part("C_1", 1), part("C_2", 1)]
    benchmark = opened("QuAC", json_lines(tmp_path, {"data": data}))
    answers = {"C_1_q#0": "red", "C_2_q#0": "red", "C_1_q#1": "red", "C_2_q#1": "blue"}
    assert _scored(benchmark, answers).headline == pytest.approx({"HEQ-Q": 75.0, "F1": 75.0, "HEQ-D": 50.0})


def test_an_answer_as_good_as_people_is_good_enough_and_a_worse_one_is_not() -> None:
    # People reach (2/3 + 2/3 + 1) / 3 with each other: three references of which two say the same thing in part.
    gold = ("red house", "red", "red")
    people = agreement(gold)
    assert people == pytest.approx((2 / 3 + 1 + 1) / 3)
    best = measure("open", "red", gold)
    assert best.f1 == pytest.approx(1.0) and best.right
    one_of_them = measure("open", "red house", gold)
    assert one_of_them.f1 == pytest.approx((2 / 3 + 1 + 1) / 3) and one_of_them.right, "equal is enough"
    assert not measure("open", "red big house", gold).right


def test_an_unparsed_answer_is_wrong_in_every_benchmark() -> None:
    for name in FILES:
        benchmark = opened(name)
        predictions = {index: benchmark.prediction(index, Unparsed("nothing")) for index in benchmark.indices}
        scores = _scored(benchmark, predictions)
        assert not any(scores.right.values()) and set(scores.headline.values()) == {0.0}, name


def test_hover_is_divided_by_hops_and_the_parts_make_the_whole() -> None:
    benchmark = opened("HoVer")
    scores = _scored(benchmark, dict.fromkeys(benchmark.indices, "A"))
    count = {hops: sum(row["num_hops"] == hops for row in json_rows("HoVer")) for hops in (2, 3, 4)}
    parts = scores.extra["categories"]
    assert set(parts) == {"2 hops", "3 hops", "4 hops"}
    total = sum(parts[f"{hops} hops"]["acc"] * n for hops, n in count.items()) / sum(count.values())
    assert total == pytest.approx(scores.headline["acc"])


def test_a_predictions_file_of_another_benchmark_is_refused(tmp_path: Path) -> None:
    boolq = opened("BoolQ")
    boolq.write_predictions(tmp_path / "predictions.tsv", {"0": "A"})
    with pytest.raises(UserError, match="row '0' is none of FEVER"):
        opened("FEVER").score(tmp_path / "predictions.tsv", "exact_matching")


# --- whole runs


def answering(text: str) -> Callable[[web.Request, dict[str, Any]], Any]:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return completion(f"I considered it.\nChange needed: no\n{text}")

    return answer


def run_argv(server: ChatServer, work_dir: Path, name: str, *method: str, file: Path | None = None) -> list[str]:
    return [
        *("run", "--method", *method, "--backbone", "openai:toy", "--base-url", server.base_url, "--data", name, "--quiet"),
        *("--data-file", f"{name}={file or DATA / FILES[name]}", "--work-dir", str(work_dir)),
    ]


@EVERY
def test_every_method_plays_and_its_run_can_be_compared(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    methods = ("direct", "cot", "sc", "self-refine", "mad-vote", "mad-judge", "cfmad")
    with ChatServer(answering("Answer: B" if name != "QuAC" else "Answer: in the village of Ostrel")) as server:
        assert main([*run_argv(server, tmp_path, name, *methods), "--limit", "4"]) == 0
        assert not any("picture" in json.dumps(body) or "image" in json.dumps(body) for body in server.requests)
        asked = len(server.requests)
        assert main([*run_argv(server, tmp_path, name, *methods), "--limit", "4"]) == 0
        assert len(server.requests) == asked, "a finished run asks nothing"
    for method in methods:
        run = read_run(tmp_path / f"{method}-toy" / name)
        assert len(run.rows) == 4 and run.scores["unparsed"] == 0
        headline = list(run.scores["headline"].values())
        assert sums_of(run).values == pytest.approx(headline), "statistics count as the scorer does"
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "cfmad-toy"), "--against", str(tmp_path / "direct-toy")]) == 0
    said = capsys.readouterr().out
    assert f"{name}: 4 questions" in said and "cfmad-toy" in said and all(one in said for one in run.scores["headline"])


def test_our_own_words_speak_of_no_picture_where_there_is_none_and_others_words_stay() -> None:
    said = statements([("Agent 1", "I weighed it against the picture.")])
    shown = turn(("Q?",), said, "Weigh it against the picture.")[1].text
    assert "> I weighed it against the picture." in shown and "Weigh it against the question." in shown
    assert "Weigh it against the picture." in turn((TRUE, "Q?"), said, "Weigh it against the picture.")[1].text
    assert [turn(prompt)[0].text for prompt in ((TRUE, "Q?"), ("Q?",))] == [SYSTEM, SYSTEM_OF_TEXT]


def test_cfmad_argues_for_every_option_and_for_generated_answers_where_there_are_none(tmp_path: Path) -> None:
    turn = iter(range(1000))

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return completion(f"Answer: {('Merle', 'Ostrel')[next(turn) % 2]}")

    with ChatServer(answer) as server:
        assert main([*run_argv(server, tmp_path, "QuAC", "cfmad"), "--limit", "1", "--concurrency", "1"]) == 0
    with ChatServer(answering("Answer: C")) as server:
        assert main([*run_argv(server, tmp_path, "FEVER", "cfmad"), "--limit", "1"]) == 0
    stances = {}
    for name in ("QuAC", "FEVER"):
        game = json.loads((tmp_path / "cfmad-toy" / name / "games.jsonl").read_text())
        stances[name] = next(event["stances"] for event in game["events"] if event["event"] == "stances")
        seats = {call["call"].partition("#")[0] for call in game["calls"]}
        assert {f"advocate {stance}" for stance in stances[name]} <= seats
    assert sorted(stances["QuAC"]) == ["Merle", "Ostrel"] and stances["FEVER"] == ["A", "B", "C"]


def test_a_row_that_cannot_be_put_is_owed_by_the_command_and_the_rest_scored_on_demand(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = json_lines(tmp_path, *json_rows(Q)[:3], with_choices([]))
    with ChatServer(answering("Answer: A")) as server:
        argv = run_argv(server, tmp_path / "out", Q, "direct", file=file)
        assert main(argv) == 3
        assert "question bad is owed: row bad: no options" in capfd.readouterr().err
        assert main([*argv, "--allow-missing"]) == 3
        assert len(server.requests) == 3, "what was played is not asked again"
    scores = json.loads((tmp_path / "out" / "direct-toy" / Q / "scores.json").read_text())
    assert scores["questions"] == 3 and scores["missing"] == 1 and scores["headline"]["acc"] == pytest.approx(100 / 3)


def test_a_run_that_stops_goes_on_where_it_was(tmp_path: Path) -> None:
    with ChatServer(answering("Answer: A")) as server:
        argv = [*run_argv(server, tmp_path, "BoolQ", "cot"), "--concurrency", "1"]
        assert main([*argv, "--call-budget", "5"]) == 3
        assert len(server.requests) == 5
        assert main(argv) == 0
        assert len(server.requests) == len(json_rows("BoolQ"))


def test_no_judge_is_asked_about_letters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer(answering("Answer: A")) as server:
        assert main([*run_argv(server, tmp_path, "HoVer", "direct"), "--limit", "2", "--judge", "chatgpt-0125"]) == 0
        assert len(server.requests) == 2
    assert json.loads((tmp_path / "direct-toy" / "HoVer" / "scores.json").read_text())["judge"] == "exact_matching"
    assert "no judge is asked" in capsys.readouterr().err


def test_a_dry_run_counts_calls_and_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer() as server:
        assert main([*run_argv(server, tmp_path, "FEVER", "cfmad"), "--dry-run"]) == 0
        assert server.requests == []
    assert f"{21 * 10} (10.0 a question)" in capsys.readouterr().out, "three stances with three calls each, and the judge"


def test_the_list_says_what_each_needs() -> None:
    said = " ".join(listing().split())
    for name in FILES:
        task = load_task(name)
        assert task.text is not None and f"--data-file {name}={task.text.file}" in said and task.text.hub in said
    assert "answers: open; headline numbers: HEQ-Q, F1, HEQ-D" in said


@pytest.mark.parametrize("where", ["auto", "."])
def test_counterfactual_pictures_for_a_text_benchmark_are_refused(
    tmp_path: Path, where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ChatServer() as server:
        assert main([*run_argv(server, tmp_path, "BoolQ", "mug"), "--counterfactuals", where]) == 2
        assert server.requests == []
    assert "BoolQ has no pictures that could be altered" in capsys.readouterr().err


def test_a_game_about_pictures_is_refused_where_there_are_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ChatServer() as server:
        assert main(run_argv(server, tmp_path, "BoolQ", "direct", "mug")) == 2
        assert server.requests == []
    assert "mug-toy is about a picture that differs, and BoolQ has no pictures" in capsys.readouterr().err


def test_damaged_references_in_a_result_folder_are_a_users_error(tmp_path: Path) -> None:
    with ChatServer(answering("Answer: Ostrel")) as server:
        assert main([*run_argv(server, tmp_path, "QuAC", "direct"), "--limit", "3"]) == 0
    folder = tmp_path / "direct-toy" / "QuAC"
    path = folder / "predictions.tsv"
    path.write_text(path.read_text().replace('"[""', '"{""'))
    with pytest.raises(UserError, match=r"predictions\.tsv is damaged"):
        sums_of(read_run(folder))
