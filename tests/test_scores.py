"""Scores are VLMEvalKit's own: the right answer counts, a wrong one and none do not, and nothing stale is read."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tables import DATA, SHARED, TINY, mmmu_row, mmstar_row, pope_row, write_table

from mug_eval.benchmarks import Benchmark, Scores, load_task, open_benchmark
from mug_eval.errors import UserError
from mug_eval.question import Answer, Unparsed


def tiny(name: str, work_dir: Path) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=work_dir, data_file=DATA / TINY[name])


def opened(name: str, folder: Path, rows: Sequence[Mapping[str, Any]]) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=folder, data_file=write_table(folder / "table.tsv", rows))


def scored(benchmark: Benchmark, folder: Path, predictions: Mapping[str, str], judge: str = "exact_matching") -> Scores:
    benchmark.write_predictions(folder / "predictions.tsv", predictions)
    return benchmark.score(folder / "predictions.tsv", judge)


def answered(benchmark: Benchmark, folder: Path, answers: Mapping[str, str]) -> Scores:
    """Scores of answers that went the whole way: canonical answer, prediction, exchange file, scorer."""
    return scored(benchmark, folder, {index: benchmark.prediction(index, Answer(text)) for index, text in answers.items()})


def gold(benchmark: Benchmark) -> dict[str, str]:
    data = benchmark._dataset.data  # type: ignore[attr-defined]
    return {
        str(index): answer for index, answer in zip(data["index"], data["answer"], strict=True) if str(index) in benchmark.indices
    }


# --- the published numbers of the photo sets

photos = pytest.mark.skipif(not SHARED.is_dir(), reason="the photo sets in ../shared/data are not there")
F1 = pytest.approx(200 / 3)


@photos
@pytest.mark.parametrize(
    ("name", "file", "constant", "expected"),
    [
        ("POPE", "photo_pope", "Yes", {"acc": 50, "F1": F1, "precision": 50, "recall": 100}),
        ("HallusionBench", "photo_hallusion", "Yes", {"aAcc": 45, "fAcc": 20, "qAcc": 20, "Avg": pytest.approx(85 / 3)}),
        ("MMStar", "photo_mmstar", "A", {"Overall": 25}),
        ("MMMU_DEV_VAL", "photo_mmmu", "A", {"validation": 50}),
    ],
)
def test_the_photo_sets_score_as_their_readme_says(
    tmp_path: Path, name: str, file: str, constant: str, expected: dict[str, Any]
) -> None:
    benchmark = open_benchmark(load_task(name), work_dir=tmp_path, data_file=SHARED / f"{file}.tsv")
    assert scored(benchmark, tmp_path, dict.fromkeys(benchmark.indices, constant)).headline == expected
    right = answered(benchmark, tmp_path, gold(benchmark))
    assert right.headline == dict.fromkeys(expected, 100)
    for numbers in right.extra["categories"].values():
        assert set(numbers.values()) == {100}


@photos
def test_a_pope_row_of_several_categories_counts_in_each(tmp_path: Path) -> None:
    benchmark = open_benchmark(load_task("POPE"), work_dir=tmp_path, data_file=SHARED / "photo_pope.tsv")
    extra = scored(benchmark, tmp_path, dict.fromkeys(benchmark.indices, "Yes")).extra
    assert (extra["n_unique"], extra["n_exploded"]) == (120, 148)
    assert extra["categories"]["random"] == {"acc": 50, "F1": F1, "precision": 50, "recall": 100}
    assert set(extra["categories"]) == {"random", "popular", "adversarial"}


# --- the same on the project's own tables


@pytest.mark.parametrize("name", sorted(TINY))
def test_right_answers_score_a_hundred(tmp_path: Path, name: str) -> None:
    benchmark = tiny(name, tmp_path)
    assert set(answered(benchmark, tmp_path, gold(benchmark)).headline.values()) == {100}


@pytest.mark.parametrize("name", sorted(TINY))
def test_no_answer_scores_nothing(tmp_path: Path, name: str) -> None:
    benchmark = tiny(name, tmp_path)
    nothing = {index: benchmark.prediction(index, Unparsed("unclear")) for index in benchmark.indices}
    assert set(scored(benchmark, tmp_path, nothing).headline.values()) == {0}


def test_hallusionbench_counts_answers_figures_and_questions(tmp_path: Path) -> None:
    benchmark = tiny("HallusionBench", tmp_path)
    scores = answered(benchmark, tmp_path, gold(benchmark) | {"VS_tiny_1_0_1_0": "No"})
    # 8 answers, 4 figures, 4 questions: one wrong answer spoils one of each.
    assert scores.headline == {"aAcc": 87.5, "fAcc": 75, "qAcc": 75, "Avg": pytest.approx(237.5 / 3)}
    assert set(scores.extra["categories"]) == {"VS", "VS_tiny"}


def test_pope_explodes_rows_and_counts_them(tmp_path: Path) -> None:
    benchmark = tiny("POPE", tmp_path)
    extra = answered(benchmark, tmp_path, gold(benchmark)).extra
    assert (extra["n_unique"], extra["n_exploded"], extra["n_scored"]) == (6, 8, 6)


def test_mmstar_and_mmmu_are_percent(tmp_path: Path) -> None:
    mmstar = tiny("MMStar", tmp_path)
    scores = answered(mmstar, tmp_path, gold(mmstar) | {"0": "B"})
    assert scores.headline == {"Overall": pytest.approx(80)}
    assert scores.extra["categories"] == {"shape": {"Overall": 50}, "count": {"Overall": 100}, "colour": {"Overall": 100}}
    mmmu = tiny("MMMU_DEV_VAL", tmp_path)
    assert answered(mmmu, tmp_path, gold(mmmu) | {"1": "B"}).headline == {"validation": pytest.approx(80)}


def test_only_the_given_rows_are_scored(tmp_path: Path) -> None:
    benchmark = tiny("MMStar", tmp_path)
    scores = answered(benchmark, tmp_path, {"0": "A", "2": "B"})
    assert (scores.headline, scores.extra["n_scored"]) == ({"Overall": 50}, 2)


def test_scores_are_json(tmp_path: Path) -> None:
    rows = [mmmu_row(1), mmmu_row(2, category="Plants", split="dev")]
    benchmark = opened("MMMU_DEV_VAL", tmp_path, rows)
    # A file that holds dev rows too makes the scorer average over nothing: NaN, which JSON has not.
    scores = scored(benchmark, tmp_path, {"1": "A", "2": "A"})
    assert scores.extra["categories"]["Plants"] == {"validation": None}
    json.dumps([scores.scorer, scores.headline, scores.extra], allow_nan=False)


# --- answers that upstream's reading gets wrong


@pytest.mark.parametrize("word", ["None", "N/A", "nan", "null", "NULL", "n/a", "<NA>"])
def test_an_option_that_pandas_takes_for_missing_can_be_right(tmp_path: Path, word: str) -> None:
    rows = [mmstar_row(0, D=word, answer="D"), mmstar_row(1, D=word, answer="A")]
    benchmark = opened("MMStar", tmp_path, rows)
    assert answered(benchmark, tmp_path, {"0": "D", "1": "A"}).headline == {"Overall": 100}
    assert answered(benchmark, tmp_path, {"0": "A", "1": "D"}).headline == {"Overall": 0}


@pytest.mark.parametrize(
    ("truth", "said", "right"),
    [
        ("dog", "dog", True),
        ("dog", "It is a Dog", True),
        ("cat", "A dog", False),
        ("cat", "A", False),
        ("cat", "B", False),
        ("N/A", "N/A", True),
        ("None", "none", True),
        ("null", "NULL", True),
        ("nan", "It is nan", True),
        ("cat", "nan", False),
        ("3.50", "3.50", True),
        ("=1+1", "=1+1", True),
        ("cat", "   ", False),
        ("cat", "cat" + "!" * 10, True),
    ],
)
def test_open_answers_are_compared_as_text(tmp_path: Path, truth: str, said: str, right: bool) -> None:
    rows = [mmmu_row(1, A="", B="", answer=truth), mmmu_row(2)]
    benchmark = opened("MMMU_DEV_VAL", tmp_path, rows)
    assert answered(benchmark, tmp_path, {"1": said, "2": "B"}).headline == {"validation": 50 if right else 0}


def test_numbers_are_compared_as_text_even_where_a_file_holds_nothing_else(tmp_path: Path) -> None:
    rows = [mmmu_row(index, A="", B="", answer=text) for index, text in enumerate(["3", "2.5", "7"])]
    benchmark = opened("MMMU_DEV_VAL", tmp_path, rows)
    assert answered(benchmark, tmp_path, {"0": "3", "1": "9", "2": "7"}).headline == {"validation": pytest.approx(200 / 3)}
    assert answered(benchmark, tmp_path, {"0": "3", "1": "2.5", "2": "seven"}).headline == {"validation": pytest.approx(200 / 3)}


def test_an_option_from_e_to_z_can_be_right(tmp_path: Path) -> None:
    benchmark = opened("MMStar", tmp_path, [mmstar_row(0, J="a whale", answer="J")])
    assert answered(benchmark, tmp_path, {"0": "J"}).headline == {"Overall": 100}


def test_an_unparsed_reply_does_not_count_as_no(tmp_path: Path) -> None:
    benchmark = opened("POPE", tmp_path, [pope_row(0, answer="No"), pope_row(1, answer="Yes")])
    predictions = {"0": benchmark.prediction("0", Unparsed("")), "1": "Yes"}
    assert scored(benchmark, tmp_path, predictions).headline["acc"] == 50


# --- the exchange file


def test_odd_text_comes_through_the_exchange_file_and_rows_stay_apart(tmp_path: Path) -> None:
    import pandas as pd

    texts = ["=1+1", "a\r\nb\tc", "\x01\x1f\x7f", "x" * 40_000, '"quoted', "http://" + "u" * 3000, "None", "東京 🐕", "a\rb"]
    rows = [mmstar_row(index, question=text, B=text) for index, text in enumerate(texts)]
    benchmark = opened("MMStar", tmp_path, rows)
    assert answered(benchmark, tmp_path, dict.fromkeys(benchmark.indices, "A")).headline == {"Overall": 100}
    read = pd.read_csv(tmp_path / "predictions.tsv", sep="\t")
    assert [text.removesuffix(" ") for text in read["question"]] == texts
    assert [text.removesuffix(" ") for text in read["B"]] == texts
    assert "image" not in read.columns


def test_the_exchange_file_is_in_the_dataset_s_order_whatever_the_order_of_the_answers(tmp_path: Path) -> None:
    benchmark = tiny("POPE", tmp_path)
    answers = dict.fromkeys(benchmark.indices, "Yes")
    benchmark.write_predictions(tmp_path / "one.tsv", answers)
    benchmark.write_predictions(tmp_path / "two.tsv", dict(reversed(answers.items())))
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes()


def test_columns_of_the_table_that_the_scorer_makes_itself_do_not_disturb_it(tmp_path: Path) -> None:
    extra = {"prediction": "B", "hit": 1, "GT": "B", "Index": "9", "Question": "no", "log": "x", "score": 1, "extracted": "No"}
    assert answered(opened("MMStar", tmp_path, [mmstar_row() | extra]), tmp_path, {"0": "A"}).headline == {"Overall": 100}
    assert answered(opened("POPE", tmp_path, [pope_row() | extra]), tmp_path, {"0": "Yes"}).headline["acc"] == 100


def test_lone_surrogates_in_an_answer_do_not_lose_the_file(tmp_path: Path) -> None:
    benchmark = opened("MMMU_DEV_VAL", tmp_path, [mmmu_row(1, A="", B="", answer="dog")])
    assert answered(benchmark, tmp_path, {"1": "dog \udcff\x00"}).headline == {"validation": 100}


def test_a_predictions_file_that_has_no_place_stops_the_run_and_touches_nothing(tmp_path: Path) -> None:
    benchmark = tiny("POPE", tmp_path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="file is a file"):
        benchmark.write_predictions(tmp_path / "file" / "predictions.tsv", {"0": "Yes"})
    assert (tmp_path / "file").read_text() == "in the way"


# --- fresh, deterministic, quiet


def test_changed_predictions_are_scored_anew(tmp_path: Path) -> None:
    benchmark = tiny("MMStar", tmp_path)
    assert scored(benchmark, tmp_path, dict.fromkeys(benchmark.indices, "A")).headline == {"Overall": 40}
    assert answered(benchmark, tmp_path, gold(benchmark)).headline == {"Overall": 100}


def test_scoring_leaves_nothing_behind(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    benchmark = tiny("HallusionBench", tmp_path)
    benchmark.write_predictions(tmp_path / "predictions.tsv", dict.fromkeys(benchmark.indices, "Yes"))
    before = sorted(tmp_path.rglob("*"))
    benchmark.score(tmp_path / "predictions.tsv", "exact_matching")
    assert sorted(tmp_path.rglob("*")) == before
    assert capfd.readouterr() == ("", "")
    assert "PRED_FORMAT" not in os.environ


def test_a_work_dir_with_tsv_in_its_name_can_be_scored_in(tmp_path: Path) -> None:
    folder = tmp_path / "my.tsv.d"
    folder.mkdir()
    benchmark = tiny("POPE", folder)
    assert answered(benchmark, folder, gold(benchmark)).headline["acc"] == 100


@pytest.mark.parametrize("content", ["", "index\n1\n", "no\ttable"])
def test_a_broken_predictions_file_is_the_user_s_mistake(tmp_path: Path, content: str) -> None:
    (tmp_path / "predictions.tsv").write_text(content)
    with pytest.raises(UserError, match=r"predictions\.tsv"):
        tiny("MMStar", tmp_path).score(tmp_path / "predictions.tsv", "exact_matching")


def test_scores_do_not_depend_on_the_hash_seed_and_are_made_quietly(tmp_path: Path) -> None:
    code = (
        "import json, logging, sys; from pathlib import Path; from mug_eval.benchmarks import *\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "out = []\n"
        f"for name, file in {TINY!r}.items():\n"
        f"    b = open_benchmark(load_task(name), work_dir=Path(sys.argv[1]), data_file=Path({str(DATA)!r}) / file)\n"
        "    b.write_predictions(Path(sys.argv[1]) / 'p.tsv', dict.fromkeys(b.indices, 'Yes' if len(name) % 2 == 0 else 'A'))\n"
        "    s = b.score(Path(sys.argv[1]) / 'p.tsv', 'exact_matching')\n"
        "    out.append([s.scorer, s.headline, s.extra])\n"
        "print(json.dumps(out))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    (one, one_err), (two, two_err) = (run.communicate(timeout=900) for run in runs)
    assert one == two
    # Nor does VLMEvalKit say a word, though the process logs to its terminal.
    assert (one_err, two_err) == ("", "")
    assert len(json.loads(one)) == 4


# --- judges


class Judge(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server that says "B" to everything, or 401."""

    status = 200
    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).asked.append(json.dumps(body["messages"]))
        good, bad = {"choices": [{"message": {"content": "B"}}]}, {"error": {"message": "Incorrect API key: sk-very-secret"}}
        reply = json.dumps(good if type(self).status == 200 else bad).encode()
        self.send_response(type(self).status)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *ignored: Any) -> None:
        return


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Judge]]:
    class Mine(Judge):
        asked: ClassVar[list[str]] = []

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Mine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{server.server_address[1]}/chat/completions")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    yield Mine
    server.shutdown()
    server.server_close()


def test_a_judge_that_answers_is_asked_what_exact_matching_cannot_read(tmp_path: Path, judge: type[Judge]) -> None:
    benchmark = opened("MMStar", tmp_path, [mmstar_row(0, answer="B"), mmstar_row(1)])
    scores = scored(benchmark, tmp_path, {"0": "the second one", "1": "A"}, "gpt-4o-mini")
    assert scores.headline == {"Overall": 100}
    assert scores.extra["judge"] == "gpt-4o-mini"
    assert any("the second one" in asked for asked in judge.asked)


def test_a_judge_is_not_asked_about_an_unparsed_choice(tmp_path: Path, judge: type[Judge]) -> None:
    benchmark = opened("MMStar", tmp_path, [mmstar_row(0, answer="B")])
    scores = scored(benchmark, tmp_path, {"0": benchmark.prediction("0", Unparsed("unclear"))}, "gpt-4o-mini")
    assert scores.headline == {"Overall": 0}
    assert not any("What is it?" in asked for asked in judge.asked)


def test_a_judge_that_refuses_is_an_error_before_anything_is_scored(
    tmp_path: Path, judge: type[Judge], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    judge.status = 401
    benchmark = opened("MMStar", tmp_path, [mmstar_row(0)])
    with pytest.raises(UserError, match="the judge 'gpt-4o-mini' does not answer") as caught:
        scored(benchmark, tmp_path, {"0": "A"}, "gpt-4o-mini")
    seen = str(caught.value) + "".join(capfd.readouterr()) + caplog.text
    assert "sk-very-secret" not in seen
    assert all("What is it?" not in asked for asked in judge.asked)


def test_an_unreachable_judge_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9/chat/completions")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    benchmark = opened("POPE", tmp_path, [pope_row(0)])
    with pytest.raises(UserError, match="does not answer"):
        scored(benchmark, tmp_path, {"0": "Yes"}, "gpt-4o-mini")


def test_every_scored_row_is_right_or_wrong_as_the_scorer_says(tmp_path: Path) -> None:
    for name in TINY:
        folder = tmp_path / name
        folder.mkdir()
        benchmark = tiny(name, folder)
        answers = gold(benchmark)
        wrong = next(iter(answers))
        found = answered(
            benchmark, folder, answers | {wrong: "Yes" if answers[wrong] == "No" else "No" if answers[wrong] == "Yes" else "Z"}
        )
        assert found.right == {index: index != wrong for index in answers}, name
