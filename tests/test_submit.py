"""Submissions: each file says, to an independent reading by the leaderboard's own rules, what VLMEvalKit's scorers said of the run."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from servers import ChatServer, completion
from tables import DATA, SHARED, mmmu_row, mmstar_row, picture, pope_row, write_table

from mug_eval.cli import main
from mug_eval.leaderboard.entry import make_entry
from mug_eval.leaderboard.submit.hallusionbench import KEY
from mug_eval.statistics.runs import by_seed, find_runs

NONE = "hard to tell"
"""A reply that is no answer."""


async def says(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """Replies what the question wants between braces, else something that follows from the prompt."""
    contents = [message["content"] for message in body["messages"]]  # when it is asked again, the question is not in the last
    parts = [part for content in contents for part in ([{"text": content}] if isinstance(content, str) else content)]
    text = " ".join(part.get("text", "") for part in parts)
    wanted = re.findall(r"\{(.*?)\}", text)
    if wanted:
        return completion(wanted[-1])
    even = hashlib.sha256(text.encode()).digest()[0] % 2 == 0
    letters = re.search(r"\bA[.:)]", text) is not None
    return completion(("A" if even else "B") if letters else ("Yes" if even else "No"))


def pope_table() -> list[dict[str, Any]]:
    said = ["Yes", "No", "Yes", "No", "No", "Yes", "Yes", "No"]
    gold = ["Yes", "Yes", "No", "No", "No", "Yes", "Yes", "No"]
    splits = [
        "random",
        "random,popular",
        "adversarial",
        "popular,adversarial,random",
        "adversarial",
        "popular",
        "random",
        "adversarial",
    ]
    return [
        pope_row(
            i,
            question=f'Is there a "dog", a cat. or\u2028no {i}? {{{reply}}}',
            answer=right,
            category=split,
            image=picture(f"#{i:02x}0000"),
        )
        for i, (reply, right, split) in enumerate(zip(said, gold, splits, strict=True))
    ]


def hallusion_table() -> list[dict[str, Any]]:
    rows = []
    for place, (kind, number, figure, question) in enumerate(
        (kind, number, figure, question)
        for kind in ("VD_figure", "VS_map")
        for number in (0, 1)
        for figure in (1, 2)
        for question in (0, 1)
    ):
        gold = "Yes" if (figure + question) % 2 else "No"
        reply = gold if place % 3 else NONE if place == 3 else "No"
        rows.append(
            {
                "index": f"{kind}_1_{number}_{figure}_{question}",
                "question": f"Is it {question}? {{{reply}}}",
                "answer": gold,
                "category": kind[:2],
                "l2-category": kind,
                "image": picture(),
            }
        )
    return rows


def mmmu_table() -> list[dict[str, Any]]:
    def row(number: int, reply: str, **changes: Any) -> dict[str, Any]:
        question = f"What is in <image 1>? {{{reply}}}"
        return mmmu_row(number, question=question, **{"id": f"validation_Dogs_and_Cats_{number}", **changes})

    return [
        row(1, "A"),
        row(2, "B"),
        row(3, NONE),
        row(4, "Answer: 3.50", A="", B="", answer="3.5"),
        row(5, "Answer: a dog", A="", B="", answer="cat"),
        row(6, "   ", A="", B="", answer="a"),
        row(7, "A", split="dev", id="dev_Dogs_and_Cats_7"),
    ]


def mmstar_table() -> list[dict[str, Any]]:
    def row(number: int, reply: str, **changes: Any) -> dict[str, Any]:
        extra = {"l2_category": "recognition", "bench": "MMBench", "category": "math"}
        shade = picture(f"#{number:02x}0000")
        return {**mmstar_row(number, question=f"What is it? {{{reply}}}", image=shade), **extra, **changes}

    return [
        row(0, "A"),
        row(1, "B"),
        row(2, NONE, answer="C"),
        row(3, "D", question="=1+1 {D}", answer="D", D="None"),
        row(4, "C", question="a\x0bb {C}", answer="C"),
    ]


TABLES = {"POPE": pope_table, "HallusionBench": hallusion_table, "MMMU_DEV_VAL": mmmu_table, "MMStar": mmstar_table}


def play(server: ChatServer, work_dir: Path, files: Mapping[str, Path], *options: str) -> Path:
    """``direct-toy`` on tables; returns the model's folder."""
    argv = ["run", "--model", "direct-openai:toy", "--base-url", server.base_url, "--quiet", "--work-dir", str(work_dir)]
    assert main([*argv, "--data", *files, "--data-file", *(f"{name}={path}" for name, path in files.items()), *options]) == 0
    return work_dir / "direct-toy"


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer(says) as server:
        yield server


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, server: ChatServer) -> Path:
    """Runs on all four tables, ``<folder>/direct-toy/<benchmark>``, and the tables beside them."""
    folder = tmp_path_factory.mktemp("played")
    files = {name: write_table(folder / f"{name}.tsv", make()) for name, make in TABLES.items()}
    return play(server, folder, files)


@pytest.fixture
def runs(played: Path, tmp_path: Path) -> Path:
    """A copy to be spoilt."""
    shutil.copytree(played.parent, tmp_path / "runs")
    return tmp_path / "runs" / played.name


def submit(run: Path, to: str, out: Path, *options: str | Path) -> Path:
    assert main(["submit", str(run), "--to", to, "--rehearsal", "--out", str(out), *map(str, options)]) == 0
    return out


def refused(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    """The one line that a mistake gets."""
    capsys.readouterr()
    assert main([*map(str, argv)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def scores(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "scores.json").read_text())
    return found


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


# --- POPE


def read_as_pope(answers: Path, labels: Sequence[str]) -> float:
    """POPE's own reading: line by line, the first sentence, words between spaces; what says no way no is yes. Percent right."""
    with answers.open() as file:
        texts = [json.loads(line)["answer"] for line in file]
    assert len(texts) == len(labels)
    words = [text.split(".")[0].replace(",", "").split(" ") for text in texts]
    read = ["no" if {"No", "not", "no"} & set(each) else "yes" for each in words]
    return 100 * sum(one == label for one, label in zip(read, labels, strict=True)) / len(labels)


def of_split(split: str) -> list[dict[str, Any]]:
    return [row for row in pope_table() if split in row["category"].split(",")]


def test_popes_own_reading_gives_the_scores_of_the_run_split_by_split(played: Path, tmp_path: Path) -> None:
    submit(played / "POPE", "pope", tmp_path / "pope")
    for split in ("random", "popular", "adversarial"):
        file = tmp_path / "pope" / f"direct-toy_pope_{split}.jsonl"
        rows = of_split(split)
        with file.open() as lines:
            assert [json.loads(line).keys() for line in lines] == [{"question", "answer"}] * len(rows)
        assert [json.loads(line)["question"] for line in file.read_text().split("\n")[:-1]] == [row["question"] for row in rows]
        accuracy = read_as_pope(file, [row["answer"].lower() for row in rows])
        assert accuracy == pytest.approx(scores(played / "POPE")["categories"][split]["acc"])


def popes_files(folder: Path) -> None:
    """POPE's own files of these questions, in another order than the table's; every question here has a picture of its own."""
    folder.mkdir()
    for split in ("random", "popular", "adversarial"):
        lines = [
            json.dumps({"image": f"{row['index']}.jpg", "text": row["question"], "label": row["answer"].lower()})
            for row in reversed(of_split(split))
        ]
        (folder / f"coco_pope_{split}.json").write_text("\n".join(lines) + "\n")


def test_answers_are_put_into_the_order_of_popes_own_files(played: Path, tmp_path: Path) -> None:
    popes_files(tmp_path / "coco")
    submit(played / "POPE", "pope", tmp_path / "pope", "--questions", tmp_path / "coco")
    for split in ("random", "popular", "adversarial"):
        file = tmp_path / "pope" / f"direct-toy_pope_{split}.jsonl"
        theirs = [json.loads(line) for line in (tmp_path / "coco" / f"coco_pope_{split}.json").read_text().split("\n")[:-1]]
        ours = [json.loads(line) for line in file.read_text().split("\n")[:-1]]
        assert [line["question"] for line in ours] == [line["text"] for line in theirs]
        accuracy = read_as_pope(file, [line["label"] for line in theirs])
        assert accuracy == pytest.approx(scores(played / "POPE")["categories"][split]["acc"])


def test_other_questions_than_popes_are_refused(played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    popes_files(tmp_path / "coco")
    argv = ["submit", played / "POPE", "--to", "pope", "--rehearsal", "--out", tmp_path / "b", "--questions", tmp_path / "coco"]
    file = tmp_path / "coco" / "coco_pope_popular.json"
    whole = file.read_text()
    first, *others = whole.splitlines()
    file.write_text("\n".join([first.replace("yes", "no"), *others]))
    assert "no picture of the run is asked what 5.jpg is" in refused(capsys, *argv)
    file.write_text("\n".join(others) + "\n")
    assert "has 2 questions of popular, the run 3" in refused(capsys, *argv)
    file.write_text("[1]\n")
    assert "not POPE's questions" in refused(capsys, *argv)
    file.unlink()
    assert "0 files *pope_popular.json" in refused(capsys, *argv)
    assert not (tmp_path / "b").exists()


def test_an_answer_that_is_none_is_no_yes_for_pope(tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    rows = pope_table()
    rows[3]["question"] = f"What? {{{NONE}}}"
    run = play(server, tmp_path, {"POPE": write_table(tmp_path / "POPE.tsv", rows)}) / "POPE"
    assert scores(run)["unparsed"] == 1
    said = refused(capsys, "submit", run, "--to", "pope", "--rehearsal", "--out", tmp_path / "pope")
    assert "1 questions have no answer (first: 3)" in said and "--keep-unparsed" in said
    submit(run, "pope", tmp_path / "pope", "--keep-unparsed")
    assert "1 answers are none, and evaluate.py counts them as yes" in capsys.readouterr().err
    kept = read_as_pope(tmp_path / "pope" / "direct-toy_pope_popular.jsonl", ["no", "yes", "yes"])
    assert kept == 100, "said no, said nothing (which counts as yes), said yes"


# --- HallusionBench


def authors_file(path: Path, **changes: Any) -> list[dict[str, Any]]:
    """HallusionBench.json as its authors publish it: in another order, with questions that have no picture."""
    records: list[dict[str, Any]] = []
    for row in reversed(hallusion_table()):
        key = dict(zip(KEY, row["index"].split("_"), strict=True))
        gold = {"gt_answer": "1" if row["answer"] == "Yes" else "0", "gt_answer_details": "It is so.", "filename": "./x.png"}
        records.append({**key, "sample_note": "x", "question": row["question"], **gold})
    bare = {**records[0], "visual_input": "0", "figure_id": "0", "filename": None}
    records.append(bare)
    records[1] = {**records[1], **changes}
    path.write_text(json.dumps(records))
    return records


def read_as_hallusionbench(records: Sequence[Mapping[str, Any]]) -> float:
    """The evaluation's reading, a judge's words replaced by their meaning. Percent right of all questions."""
    right = {}
    for record in records:
        assert isinstance(record["question"] + record["gt_answer_details"] + record["model_prediction"], str)
        name = tuple(str(record[part]) for part in ("category", "subcategory", "set_id", "figure_id", "question_id"))
        assert name not in right
        judged = {"Yes": "1", "No": "0"}.get(record["model_prediction"], "2")
        bare = record["category"] == "VS" and str(record["figure_id"]) == "0"
        right[name] = judged == record["gt_answer"] or (bare and judged == "2")
    return 100 * sum(right.values()) / len(right)


def test_hallusionbench_gets_its_own_records_in_its_own_order_with_our_prediction(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = authors_file(tmp_path / "HallusionBench.json")
    file = submit(
        played / "HallusionBench", "hallusionbench", tmp_path / "out.json", "--questions", tmp_path / "HallusionBench.json"
    )
    ours = json.loads(file.read_text())
    assert [{name: value for name, value in record.items() if name != "model_prediction"} for record in ours] == theirs[:-1]
    assert read_as_hallusionbench(ours) == pytest.approx(scores(played / "HallusionBench")["headline"]["aAcc"])
    said = capsys.readouterr().err
    assert "1 questions without a picture were not played and are left out" in said
    assert "1 answers are none, to be judged unclear" in said
    assert [record["model_prediction"] for record in ours].count("Cannot determine the answer") == 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gt_answer": "2"}, "has the answer 2, the table"),
        ({"question_id": "7"}, "another version of HallusionBench"),
        ({"gt_answer_details": None}, "is no text"),
        ({"figure_id": "2", "question_id": "1"}, "a question is there twice"),
    ],
)
def test_other_questions_than_hallusionbenchs_are_refused(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    file = tmp_path / "HallusionBench.json"
    authors_file(file, **changes)
    argv = ["submit", played / "HallusionBench", "--to", "hallusionbench", "--rehearsal", "--out", tmp_path / "out.json"]
    assert said in refused(capsys, *argv, "--questions", file)
    assert not (tmp_path / "out.json").exists()


def test_hallusionbench_needs_its_own_file(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(runs / "HallusionBench" / "run.json", notes=[])
    assert "give --questions HallusionBench.json" in refused(capsys, "submit", runs / "HallusionBench", "--to", "hallusionbench")


# --- MMMU


def read_as_mmmu(answers: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[bool]:
    """MMMU's own reading: a letter exactly; the right open answer within what was said, or the same number to two decimals."""

    def forms(text: str) -> list[str | float]:
        try:
            return [round(float(text.replace(",", "")), 2)]
        except ValueError:
            return [f" {text}", f"{text} "] if len(text) == 1 else [text.lower()]

    right = []
    for row in rows:
        said = answers[row["id"]]
        if row["A"]:
            right.append(said == row["answer"])
            continue
        text = said.strip().strip(".").lower()
        pieces = [text, *re.findall(r"-?\d+(?:\.\d+)?", text)]
        found = [form for piece in pieces for form in forms(piece)]
        gold = forms(row["answer"])
        right.append(any(one in found if isinstance(one, float) else any(one in str(other) for other in found) for one in gold))
    return right


def test_mmmus_own_reading_gives_the_score_of_the_run(played: Path, tmp_path: Path) -> None:
    answers = json.loads(submit(played / "MMMU_DEV_VAL", "mmmu", tmp_path / "mmmu.json").read_text())
    rows = [row for row in mmmu_table() if row["split"] == "validation"]
    assert list(answers) == [row["id"] for row in rows], "all of the split: the denominator is what is there"
    assert answers["validation_Dogs_and_Cats_1"] == "A"
    assert answers["validation_Dogs_and_Cats_3"] == answers["validation_Dogs_and_Cats_6"] == ""
    right = read_as_mmmu(answers, rows)
    assert right == [True, False, False, True, False, False]
    assert scores(played / "MMMU_DEV_VAL")["headline"]["validation"] == pytest.approx(100 * sum(right) / len(right))
    sentence = {**answers, "validation_Dogs_and_Cats_6": "Cannot determine the answer"}
    assert read_as_mmmu(sentence, rows)[-1], "why no sentence stands for an answer that is none"


def test_ids_that_are_not_mmmus_are_refused(tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    run = play(server, tmp_path, {"MMMU_DEV_VAL": DATA / "tiny_mmmu.tsv"}) / "MMMU_DEV_VAL"
    assert "its id 'v1' is none of MMMU's" in refused(capsys, "submit", run, "--to", "mmmu", "--rehearsal", "--out", tmp_path / "x")
    assert not (tmp_path / "x").exists()


# --- MMStar


def read_as_mmstar(table: Any) -> list[bool]:
    """MMStar's own reading: the first character of the prediction."""
    said = [str(text).lower().strip() for text in table["prediction"]]
    return [text[0] == gold.lower() for text, gold in zip(said, table["answer"], strict=True)]


def test_mmstars_own_reading_gives_the_score_of_the_run(played: Path, tmp_path: Path) -> None:
    import pandas as pd

    file = submit(played / "MMStar", "mmstar", tmp_path / "a.xlsx")
    table = pd.read_excel(file)
    assert list(table.columns) == ["index", "question", "answer", "category", "l2_category", "bench", "prediction"]
    right = read_as_mmstar(table)
    assert right == [True, False, False, True, True]
    assert 100 * sum(right) / len(right) == pytest.approx(scores(played / "MMStar")["headline"]["Overall"])
    assert table["prediction"][2] == "Z" and read_as_mmstar({"prediction": ["Cannot determine"], "answer": ["C"]}) == [True]
    assert table["question"][3].startswith("=1+1"), "a text, not the formula that readers see as 0"
    assert "D: None" in table["question"][3] and table["question"][4].startswith("ab ")
    assert file.read_bytes() == submit(played / "MMStar", "mmstar", tmp_path / "b.xlsx").read_bytes()


def test_a_table_without_mmstars_columns_is_refused(tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]) -> None:
    run = play(server, tmp_path, {"MMStar": DATA / "tiny_mmstar.tsv"}) / "MMStar"
    assert "no column l2_category" in refused(capsys, "submit", run, "--to", "mmstar", "--rehearsal", "--out", tmp_path / "x")


# --- scores: OpenVLM and the hub

META = {
    "Method": ["Toy", "https://example.org/toy"],
    "Parameters": "7B",
    "Language Model": "Toy-LM",
    "Vision Model": "Toy-ViT",
    "Org": "Toys",
    "OpenSource": "Yes",
}


def test_openvlms_own_reading_finds_a_row(played: Path, tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text(yaml.safe_dump(META))
    whole = json.loads(submit(played, "openvlm", tmp_path / "OpenVLM.json", "--meta", tmp_path / "meta.yaml").read_text())
    assert re.fullmatch("[0-9]{14}", whole["time"])
    ((name, row),) = whole["results"].items()
    meta = row.pop("META")
    assert name == meta["Method"][0] and float(meta["Parameters"].replace("B", "")) == 7
    assert (meta["OpenSource"], meta["Verified"]) == ("Yes", "No")
    assert meta["Language Model"] and meta["Vision Model"]
    assert list(row) == ["POPE", "MMStar", "HallusionBench", "MMMU_VAL"]
    for numbers in row.values():
        assert all(isinstance(value, float) and 0 <= value <= 100 for value in numbers.values())
    said = {benchmark: scores(played / benchmark)["headline"] for benchmark in TABLES}
    assert row["POPE"]["Overall"] == round(said["POPE"]["F1"], 1) and row["POPE"]["acc"] == round(said["POPE"]["acc"], 1)
    assert row["HallusionBench"]["Overall"] == round(said["HallusionBench"]["Avg"], 1)
    assert row["MMMU_VAL"]["Overall"] == round(said["MMMU_DEV_VAL"]["validation"], 1)
    assert row["MMStar"] == {"Overall": 60.0, "math": 60.0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Method": "Toy"}, "Method must be a list of name and address"),
        ({"Method": ["Toy", "javascript:alert(1)"]}, "Method must be the model's name and its address"),
        ({"Parameters": "7 billion"}, "Parameters must be a text of the form"),
        ({"OpenSource": "true"}, "OpenSource must be a text of the form Yes|No"),
        ({"Org": "<b>Toys</b>"}, "Org must be a text of the form"),
        ({"Verified": "Yes"}, "unknown field 'Verified'"),
    ],
)
def test_a_meta_that_is_none_is_refused(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    (tmp_path / "meta.yaml").write_text(yaml.safe_dump({**META, **changes}))
    argv = ["submit", played / "POPE", "--to", "openvlm", "--rehearsal", "--out", tmp_path / "x"]
    assert said in refused(capsys, *argv, "--meta", tmp_path / "meta.yaml")
    assert "openvlm needs --meta FILE" in refused(capsys, *argv)


def test_the_hubs_own_library_reads_its_entry(played: Path, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    if not hasattr(hub, "parse_eval_result_entries"):
        pytest.skip("this huggingface_hub has no reader for .eval_results yet")
    options = ("--hub-task", "default", "--source-url", "https://example.org/run")
    file = submit(played / "HallusionBench", "hf", tmp_path / "x.yaml", *options)
    (entry,) = hub.parse_eval_result_entries(yaml.safe_load(file.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.source_url) == ("lmms-lab/HallusionBench", "default", "https://example.org/run")
    assert entry.value == round(scores(played / "HallusionBench")["headline"]["Avg"], 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", entry.date) and isinstance(entry.date, str)
    assert "protocol direct" in entry.notes and "16 questions, 1 without an answer" in entry.notes


def test_the_hubs_task_is_never_guessed(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["submit", played / "POPE", "--to", "hf", "--rehearsal"]
    assert "hf needs --hub-task ID" in refused(capsys, *argv)
    assert "--hub-dataset is OWNER/NAME" in refused(capsys, *argv, "--hub-task", "x", "--hub-dataset", "nowhere")
    assert "write the whole https:// address" in refused(capsys, *argv, "--hub-task", "x", "--source-url", "example.org")


# --- what is refused


def test_another_benchmark_is_refused_by_every_format(played: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for to, other in (("pope", "MMStar"), ("mmstar", "POPE"), ("mmmu", "HallusionBench"), ("hallusionbench", "MMMU_DEV_VAL")):
        assert f"this run is on {other}" in refused(capsys, "submit", played / other, "--to", to, "--rehearsal")


def test_other_questions_than_the_published_ones_are_for_rehearsal_only(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["submit", runs / "POPE", "--to", "pope", "--out", tmp_path / "out"]
    said = refused(capsys, *argv)
    assert "not the questions of the published POPE (8 were played)" in said and "--rehearsal" in said
    edit(runs / "POPE" / "run.json", notes=[])  # as of a table with as many rows as the published one
    assert main([*map(str, argv)]) == 0


def test_a_limited_an_owed_and_an_unfinished_run_are_refused(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs / "POPE"
    for to in ("pope", "hf", "openvlm"):
        argv = ["submit", run, "--to", to, "--rehearsal"]
        before = (run / "run.json").read_text(), (run / "scores.json").read_text()
        edit(run / "run.json", limit=8)
        assert "only the first 8 questions were played" in refused(capsys, *argv)
        (run / "run.json").write_text(before[0])
        edit(run / "scores.json", missing=1)
        assert "1 questions are owed" in refused(capsys, *argv)
        (run / "scores.json").write_text(before[1])
        (run / "run.json").unlink()
        assert "is not complete" in refused(capsys, *argv)
        (run / "run.json").write_text(before[0])


def test_files_that_do_not_belong_together_are_refused(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runs / "MMMU_DEV_VAL"
    argv = ["submit", run, "--to", "mmmu", "--rehearsal", "--out", tmp_path / "x"]
    games, predictions = (run / "games.jsonl").read_text(), (run / "predictions.tsv").read_text()
    (run / "games.jsonl").write_text(games.replace('"prediction":"B"', '"prediction":"A"'))
    assert "predictions.tsv is not what its table and games.jsonl give" in refused(capsys, *argv)
    (run / "games.jsonl").write_text("".join(games.splitlines(keepends=True)[:-1]))
    assert "has no game for 1 questions" in refused(capsys, *argv)
    (run / "games.jsonl").write_text(games)
    (run / "predictions.tsv").write_text(predictions.replace("validation_Dogs_and_Cats_1", "validation_Dogs_and_Cats_9"))
    assert "predictions.tsv is not what its table and games.jsonl give" in refused(capsys, *argv)
    (run / "predictions.tsv").write_text(predictions)
    assert "is another table than the one that was played" in refused(capsys, *argv, "--data-file", DATA / "tiny_mmmu.tsv")
    shutil.rmtree(runs.parent / ".data")
    assert main([*map(str, argv), "--data-file", str(runs.parent / "MMMU_DEV_VAL.tsv")]) == 0


def test_options_that_mean_nothing_are_refused(played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["submit", played / "MMStar", "--to", "mmstar", "--rehearsal"]
    assert "--hub-task means nothing to mmstar" in refused(capsys, *argv, "--hub-task", "x")
    assert "--keep-unparsed means nothing to mmstar" in refused(capsys, *argv, "--keep-unparsed")
    assert "mmstar takes one run, and here are 4" in refused(capsys, "submit", played, "--to", "mmstar", "--rehearsal")
    (tmp_path / "file").write_text("")
    assert "so it must be a folder" in refused(
        capsys, "submit", played / "POPE", "--to", "pope", "--rehearsal", "--out", tmp_path / "file"
    )


# --- the board's row of these runs


def test_the_rows_command_plays_the_run_again(
    played: Path, tmp_path: Path, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--set", "sampling.max_tokens=77", "image.size=32x16", "--seed", "3")
    run = play(server, tmp_path / "first", {"MMStar": played.parent / "MMStar.tsv"}, *options) / "MMStar"
    (group,) = by_seed(find_runs([run]))
    entry = make_entry(group)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(played.parent / "MMStar.tsv", elsewhere)
    monkeypatch.chdir(elsewhere)
    program, *argv = shlex.split(entry["command"])
    assert program == "mug-eval"
    assert main([word.replace("http://SERVER/v1", server.base_url) for word in argv]) == 0
    (group,) = by_seed(find_runs([elsewhere / "outputs" / "direct-toy"]))
    again = make_entry(group)
    for name in ("id", "config_sha256", "scores", "command", "benchmark", "decoding", "resolution"):
        assert again[name] == entry[name]


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared photo sets are not beside the repository")
def test_the_photo_sets_go_through_every_format(tmp_path: Path, server: ChatServer) -> None:
    names = {"POPE": "pope", "MMStar": "mmstar", "HallusionBench": "hallusion", "MMMU_DEV_VAL": "mmmu"}
    folder = play(server, tmp_path, {name: SHARED / f"photo_{file}.tsv" for name, file in names.items()})
    submit(folder / "POPE", "pope", tmp_path / "pope")
    assert len(list((tmp_path / "pope").iterdir())) == 3
    assert len(json.loads(submit(folder / "HallusionBench", "hallusionbench", tmp_path / "h.json").read_text())) == 40
    answers = json.loads(submit(folder / "MMMU_DEV_VAL", "mmmu", tmp_path / "m.json").read_text())
    assert len(answers) == 16 and all(name.startswith("validation_") for name in answers)
    submit(folder / "MMStar", "mmstar", tmp_path / "s.xlsx")
    (tmp_path / "meta.yaml").write_text(yaml.safe_dump(META))
    submit(folder, "openvlm", tmp_path / "o.json", "--meta", tmp_path / "meta.yaml")
