"""VLMEvalKit's own inference plays a protocol: many games at a time, traces beside predictions, owed questions asked again."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tables import DATA, TINY, mmmu_row, mmstar_row, pope_row, write_table

from mug_eval.benchmarks import vlmeval
from mug_eval.benchmarks.exchange import prediction_text
from mug_eval.benchmarks.registered_model import Outcome, RegisteredModel, put_into_vlmevalkit
from mug_eval.chat import TransientError
from mug_eval.errors import RunStopped, UserError
from mug_eval.question import Answer, Question, Unparsed

Play = Callable[[Question], Coroutine[Any, Any, Mapping[str, Any]]]
NAME = "mug-Qwen2.5-VL-rule"


def record(question: Question, said: str) -> dict[str, Any]:
    prediction = prediction_text(Answer(said), question.answer_format)
    events = [{"event": "vote", "seat": "Agent 1"}]
    return {"index": question.index, "prediction": prediction, "answer": {"value": said}, "raw": said, "events": events}


def by_rule(answers: Mapping[str, str]) -> Play:
    async def play(question: Question) -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return record(question, answers[question.index])

    return play


@pytest.fixture(autouse=True)
def plain_text_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PRED_FORMAT", "tsv")
    yield
    vlmeval.load("vlmeval.config").supported_VLM.pop(NAME, None)


def dataset_of(name: str, table: Path, folder: Path) -> Any:
    """As VLMEvalKit itself builds it: no part of ours has touched it."""
    cls = getattr(
        vlmeval.load("vlmeval.dataset"), {"POPE": "ImageYORNDataset", "MMStar": "ImageMCQDataset"}.get(name, "MMMUDataset")
    )
    (folder / "LMUData").mkdir(exist_ok=True)
    (folder / "LMUData" / f"{name}_tiny.tsv").write_bytes(table.read_bytes())
    with vlmeval.environment(LMUData=str(folder / "LMUData")), vlmeval.quiet():
        return cls(dataset=f"{name}_tiny")


def infer(dataset: Any, folder: Path, api_nproc: int = 4) -> pd.DataFrame:
    with vlmeval.quiet():
        vlmeval.load("vlmeval.inference").infer_data_job(
            NAME, work_dir=str(folder), model_name=NAME, dataset=dataset, api_nproc=api_nproc
        )
    return pd.read_csv(folder / f"{NAME}_{dataset.dataset_name}.tsv", sep="\t")


def evaluate(dataset: Any, folder: Path) -> pd.DataFrame:
    with vlmeval.quiet():
        return dataset.evaluate(str(folder / f"{NAME}_{dataset.dataset_name}.tsv"), model="exact_matching", nproc=1)


GOLD = {
    "POPE": {"0": "Yes", "1": "No", "2": "Yes", "3": "No", "4": "Yes", "5": "No"},
    "MMStar": {"0": "A", "1": "B", "2": "C", "3": "D", "4": "A"},
    "MMMU_DEV_VAL": {"1": "A", "2": "It is red", "3": "N/A", "4": "B", "5": "['1', 'one']", "6": "A"},
}


@pytest.mark.parametrize("name", sorted(GOLD))
def test_infer_data_job_plays_a_registered_protocol_and_its_file_scores_right(tmp_path: Path, name: str) -> None:
    assert put_into_vlmevalkit([NAME], lambda model: by_rule(GOLD[name])) == [NAME]
    data = dataset_of(name, DATA / TINY[name], tmp_path)
    frame = infer(data, tmp_path)
    assert [str(index) for index in frame["index"]] == list(GOLD[name])
    assert all("'event': 'vote'" in trace for trace in frame["extra_records"])
    scores = evaluate(data, tmp_path)
    assert set(scores["acc" if name == "POPE" else "Overall"]) == {100 if name == "POPE" else 1}


def test_games_run_side_by_side(tmp_path: Path) -> None:
    running, most, everybody = 0, 0, asyncio.Event()

    async def play(question: Question) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if most == 4:
            everybody.set()
        # Nobody ends before four have begun: were they played one after another, this would time out.
        await asyncio.wait_for(everybody.wait(), timeout=60)
        running -= 1
        return record(question, "Yes")

    put_into_vlmevalkit([NAME], lambda name: play)
    infer(dataset_of("POPE", DATA / TINY["POPE"], tmp_path), tmp_path, api_nproc=4)
    assert most == 4


def test_a_protocol_is_shown_the_question_and_not_the_answer(tmp_path: Path) -> None:
    seen: list[Question] = []

    async def play(question: Question) -> dict[str, Any]:
        seen.append(question)
        return record(question, "A")

    rows = [mmmu_row(1, answer="B", image_path="['secret_name.png']"), mmmu_row(2)]
    put_into_vlmevalkit([NAME], lambda name: play)
    data = dataset_of("MMMU_DEV_VAL", write_table(tmp_path / "t.tsv", rows), tmp_path)
    infer(data, tmp_path)
    one = next(question for question in seen if question.index == "1")
    assert one.benchmark == "MMMU_DEV_VAL"
    assert [type(part).__name__ for part in one.prompt] == ["str", "ImageRef", "str"]
    assert "secret_name" not in repr(one)

    model = RegisteredModel(lambda: play)
    fresh = dataset_of("MMMU_DEV_VAL", tmp_path / "t.tsv", tmp_path)
    model.set_dump_image(fresh.dump_image)
    message = model.build_prompt(fresh.data.iloc[0], dataset=fresh.dataset_name)
    assert {item["type"] for item in message} == {"index", "text", "image"}
    assert not any(item["value"] == "B" for item in message)


def test_an_option_that_pandas_takes_for_missing_is_shown_and_scores(tmp_path: Path) -> None:
    seen: list[Question] = []

    async def play(question: Question) -> dict[str, Any]:
        seen.append(question)
        return record(question, "D")

    put_into_vlmevalkit([NAME], lambda name: play)
    data = dataset_of("MMStar", write_table(tmp_path / "t.tsv", [mmstar_row(0, D="None", answer="D")]), tmp_path)
    infer(data, tmp_path)
    assert ("D", "None") in seen[0].answer_format.options
    assert any("D. None" in part for part in seen[0].prompt if isinstance(part, str))
    assert list(evaluate(data, tmp_path)["Overall"]) == [1]


# --- owed questions


def failing(times: dict[str, int], error: Exception, asked: list[str]) -> Play:
    """Fails so many times for each index named, then plays right."""

    async def play(question: Question) -> dict[str, Any]:
        asked.append(question.index)
        if times.get(question.index, 0) > 0:
            times[question.index] -= 1
            raise error
        return record(question, GOLD["POPE"][question.index])

    return play


def test_an_owed_question_is_not_scored_and_asked_again_next_time(tmp_path: Path) -> None:
    asked: list[str] = []
    put_into_vlmevalkit([NAME], lambda name: failing({"2": 1, "4": 1}, TransientError("server\nbusy"), asked))
    model = vlmeval.load("vlmeval.config").supported_VLM[NAME]()
    vlmeval.load("vlmeval.config").supported_VLM[NAME] = lambda **ignored: model
    data = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
    frame = infer(data, tmp_path)
    assert list(frame["prediction"][[2, 4]]) == ["Failed to obtain answer via API. server busy"] * 2
    with pytest.raises(UserError, match=r"2 question\(s\) are owed, so nothing is scored"):
        evaluate(data, tmp_path)

    asked.clear()
    again = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
    frame = infer(again, tmp_path)
    assert sorted(asked) == ["2", "4"]
    # VLMEvalKit mixes the first run's texts with the second's outcomes: neither may spoil the other.
    assert list(frame["prediction"]) == list(GOLD["POPE"].values())
    assert set(evaluate(again, tmp_path)["acc"]) == {100}


def test_a_job_that_was_killed_asks_only_what_it_did_not_have(tmp_path: Path) -> None:
    asked: list[str] = []
    stopped = RunStopped("the call budget is spent")
    put_into_vlmevalkit([NAME], lambda name: failing({"5": 1}, stopped, asked))
    model = vlmeval.load("vlmeval.config").supported_VLM[NAME]()
    vlmeval.load("vlmeval.config").supported_VLM[NAME] = lambda **ignored: model
    with pytest.raises(RunStopped):
        infer(dataset_of("POPE", DATA / TINY["POPE"], tmp_path), tmp_path, api_nproc=1)
    checkpoint = next(tmp_path.glob("*_checkpoint.pkl"))
    assert sorted(vlmeval.load("vlmeval.smp").load(str(checkpoint))) == ["0", "1", "2", "3", "4"]
    asked.clear()
    data = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
    infer(data, tmp_path, api_nproc=1)
    assert asked == ["5"]
    assert set(evaluate(data, tmp_path)["acc"]) == {100}


def test_an_owed_question_in_a_checkpoint_is_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []

    async def play(question: Question) -> dict[str, Any]:
        asked.append(question.index)
        if question.index == "1" and asked.count("1") == 1:
            raise TransientError("busy")
        if question.index == "5" and asked.count("5") == 1:
            raise RunStopped("the disk is full")
        return record(question, GOLD["POPE"][question.index])

    put_into_vlmevalkit([NAME], lambda name: play)
    with pytest.raises(RunStopped):
        infer(dataset_of("POPE", DATA / TINY["POPE"], tmp_path), tmp_path, api_nproc=1)
    asked_before = list(asked)
    data = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
    infer(data, tmp_path, api_nproc=1)
    assert asked[len(asked_before) :] == ["1", "5"]
    assert set(evaluate(data, tmp_path)["acc"]) == {100}


def test_an_unreadable_picture_is_owed_and_the_others_are_played(tmp_path: Path) -> None:
    rows = [pope_row(0), pope_row(1, image="A" * 100), pope_row(2, question="")]
    put_into_vlmevalkit([NAME], lambda name: by_rule(dict.fromkeys("012", "Yes")))
    frame = infer(dataset_of("POPE", write_table(tmp_path / "t.tsv", rows), tmp_path), tmp_path)
    assert frame["prediction"][0] == "Yes"
    assert frame["prediction"][1].startswith("Failed to obtain answer via API. row 1: picture 1:")
    assert frame["prediction"][2].startswith("Failed to obtain answer via API. row 2: column question is empty")


def test_a_reply_that_could_not_be_read_is_no_failure(tmp_path: Path) -> None:
    async def play(question: Question) -> dict[str, Any]:
        return record(question, "x") | {"prediction": prediction_text(Unparsed("unclear"), question.answer_format)}

    put_into_vlmevalkit([NAME], lambda name: play)
    data = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
    infer(data, tmp_path)
    assert set(evaluate(data, tmp_path)["acc"]) == {0}


# --- registering


def test_an_outcome_reads_as_its_prediction_and_survives_the_checkpoint() -> None:
    outcome = Outcome(prediction="Yes", extra_records={"index": "1"})
    again = pickle.loads(pickle.dumps(outcome))  # noqa: S301 - VLMEvalKit's checkpoint is a pickle
    assert (str(again), again) == ("Yes", outcome)


@pytest.mark.parametrize("settings", [{"use_vllm": True}, {"retry": 3, "verbose": True}, {}])
def test_keywords_that_vlmevalkit_adds_are_taken(settings: dict[str, Any]) -> None:
    put_into_vlmevalkit([NAME], lambda name: by_rule({}))
    model = vlmeval.load("vlmeval.config").supported_VLM[NAME](**settings)
    assert model.is_api and model.use_custom_prompt("POPE")


def test_the_exchange_file_is_a_tsv_unless_the_user_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRED_FORMAT", "xlsx")
    put_into_vlmevalkit([NAME], lambda name: by_rule({}))
    assert os.environ["PRED_FORMAT"] == "xlsx"
    monkeypatch.delenv("PRED_FORMAT")
    put_into_vlmevalkit([NAME], lambda name: by_rule({}))
    assert os.environ["PRED_FORMAT"] == "tsv"


def test_a_protocol_is_opened_by_its_name_when_the_model_is_built() -> None:
    opened: list[str] = []

    def open_play(name: str) -> Play:
        opened.append(name)
        return by_rule({})

    put_into_vlmevalkit([NAME], open_play)
    assert opened == []
    vlmeval.load("vlmeval.config").supported_VLM[NAME]()
    assert opened == [NAME]


def test_a_model_of_vlmevalkit_s_own_is_not_replaced() -> None:
    with pytest.raises(UserError, match="has a model 'GPT4o' already"):
        put_into_vlmevalkit(["GPT4o"], lambda name: by_rule({}))
    put_into_vlmevalkit([NAME], lambda name: by_rule({}))
    put_into_vlmevalkit([NAME], lambda name: by_rule({}))


def test_a_dataset_without_a_task_file_is_refused(tmp_path: Path) -> None:
    cls = vlmeval.load("vlmeval.dataset").ImageYORNDataset
    (tmp_path / "Unheard.tsv").write_bytes((DATA / TINY["POPE"]).read_bytes())
    with vlmeval.environment(LMUData=str(tmp_path)), vlmeval.quiet():
        dataset = cls(dataset="Unheard")
    with pytest.raises(UserError, match="cannot play Unheard"):
        RegisteredModel(lambda: by_rule({})).set_dump_image(dataset.dump_image)


# the whole way: register() as a user calls it, games over HTTP


def test_registered_models_play_the_games_that_run_eval_plays(tmp_path: Path) -> None:
    """``register()`` and ``run_eval.py`` share seeds, calls and journal: whichever comes second asks nothing."""
    from servers import ChatServer
    from test_kill import Ledger

    from mug_eval.benchmarks import register
    from mug_eval.cli import main

    supported = vlmeval.load("vlmeval.config").supported_VLM
    ledger = Ledger()
    with ChatServer(ledger) as server:
        work_dir = tmp_path / "outputs"
        names = register(["mad-vote-qwen"], base_url=server.base_url, work_dir=work_dir, seed=3, settings=["mug.agents=4"])
        assert names == ["mad-vote-qwen"]
        dataset = dataset_of("POPE", DATA / TINY["POPE"], tmp_path)
        with vlmeval.quiet():
            vlmeval.load("vlmeval.inference").infer_data_job(
                "mad-vote-qwen", work_dir=str(tmp_path), model_name="mad-vote-qwen", dataset=dataset, api_nproc=4
            )
        table = pd.read_csv(tmp_path / "mad-vote-qwen_POPE_tiny.tsv", sep="\t")
        assert len(table) == len(GOLD["POPE"]) and set(table["prediction"]) <= {"Yes", "No", "Cannot determine the answer"}
        trace = table["extra_records"][0]
        assert "Agent 3" in trace and "'calls'" in trace
        asked = len(ledger.asked)
        assert asked >= 6 * len(table)
        argv = ["run", "--model", "mad-vote-qwen", "--base-url", server.base_url, "--data", "POPE", "--seed", "3", "--quiet"]
        # The process that registered holds the work-dir; the journal is copied as a user would move it.
        other = tmp_path / "other"
        other.mkdir()
        import sqlite3

        with sqlite3.connect(work_dir / "journal.sqlite") as source, sqlite3.connect(other / "journal.sqlite") as copy:
            source.backup(copy)
        assert main([*argv, "--data-file", f"POPE={DATA / TINY['POPE']}", "--work-dir", str(other)]) == 0
        assert len(ledger.asked) == asked, "the same games: nothing is asked again"
        predictions = pd.read_csv(other / "mad-vote-qwen" / "POPE" / "predictions.tsv", sep="\t")
        assert list(predictions["prediction"]) == list(table["prediction"])
    supported.pop("mad-vote-qwen")


def test_every_method_and_backbone_can_be_registered(tmp_path: Path) -> None:
    from mug_eval.benchmarks import register
    from mug_eval.registration import every_model

    supported = vlmeval.load("vlmeval.config").supported_VLM
    before = set(supported)
    try:
        assert register(work_dir=tmp_path) == every_model()
        assert {"mug-qwen", "sc12-internvl", "cfmad-gpt-4o-mini", "self-refine-qwen"} <= set(supported)
    finally:
        for name in set(supported) - before:
            del supported[name]


def test_any_served_model_can_be_registered_under_a_safe_name(tmp_path: Path) -> None:
    from mug_eval.benchmarks import register

    supported = vlmeval.load("vlmeval.config").supported_VLM
    try:
        assert register(["mug-openai:org/my model"], base_url="http://127.0.0.1:9/v1", work_dir=tmp_path) == ["mug-org-my-model"]
        assert "mug-org-my-model" in supported
    finally:
        supported.pop("mug-org-my-model", None)


def test_a_dataset_of_another_class_is_one_line_that_names_the_right_one(tmp_path: Path) -> None:
    class CustomVQADataset:
        dataset_name = "POPE_mine"
        data = pd.DataFrame({"index": ["1"], "image": ["x"]})

        def dump_image(self, line: Any) -> list[str]:
            return []

    model = RegisteredModel(lambda: by_rule({}))
    with pytest.raises(UserError, match=r"ImageYORNDataset\(dataset='POPE_mine'\)"):
        model.set_dump_image(CustomVQADataset().dump_image)
