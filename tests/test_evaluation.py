"""Whole runs by the real command against a real server that misbehaves: what is owed, scored, kept and said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from servers import ChatServer, always, completion, failure
from tables import DATA, TINY
from tiny_vlm import save_qwen

from mug_eval.backbones import transformers_vlm
from mug_eval.cli import main
from mug_eval.cli.run import parser
from mug_eval.evaluation import evaluate
from mug_eval.plan import make_plan

TABLE = DATA / TINY["POPE"]
ROWS = 6


def command(server: ChatServer, work_dir: Path, *more: str, method: str = "direct", backbone: str = "openai:toy") -> list[str]:
    return [
        *("run", "--method", method, "--backbone", *backbone.split(), "--base-url", server.base_url, "--data", "POPE", "--quiet"),
        *("--data-file", f"POPE={TABLE}", "--work-dir", str(work_dir), *more),
    ]


def words(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"])


def scores(work_dir: Path, model: str = "direct-toy") -> dict[str, Any]:
    return json.loads((work_dir / model / "POPE" / "scores.json").read_text())


class BadFor:
    """Answers Yes, but fails in one way whenever the question holds a word."""

    def __init__(self, word: str, how: str) -> None:
        self.word, self.how = word, how

    async def __call__(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if self.word not in words(body):
            return completion("Answer: Yes")
        if self.how == "500":
            return failure(500, "cannot do this one")
        assert request.transport is not None
        request.transport.close()
        return completion("never arrives")


FIRST_WORD = "red"


def bad_rows() -> int:
    lines = TABLE.read_text().splitlines()
    column = lines[0].split("\t").index("question")
    return sum(FIRST_WORD in line.split("\t")[column] for line in lines[1:])


@pytest.mark.parametrize("concurrency", ["1", "8"])
@pytest.mark.parametrize("how", ["500", "dropped connection"])
def test_a_question_that_the_server_always_fails_on_is_owed_and_the_rest_is_scored(
    tmp_path: Path, how: str, concurrency: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bad = bad_rows()
    assert 0 < bad < ROWS
    argv = ["--retries", "1", "--patience", "30", "--concurrency", concurrency]
    with ChatServer(BadFor(FIRST_WORD, how)) as server:
        assert main(command(server, tmp_path, *argv)) == 3
        folder = tmp_path / "direct-toy" / "POPE"
        assert not (folder / "scores.json").exists() and not (folder / "run.json").exists(), "nothing is scored with questions owed"
        assert len(json.loads((folder / "owed.json").read_text())) == bad
        asked = len(server.requests)
        assert main(command(server, tmp_path, *argv, "--allow-missing")) == 3
        assert len(server.requests) - asked == 2 * bad, "only what is owed is asked again, with its retries"
    assert scores(tmp_path)["questions"] == ROWS - bad and scores(tmp_path)["missing"] == bad
    assert f"{bad} owed" in capfd.readouterr().err


def test_what_a_budget_allowed_is_scored_if_the_rest_may_be_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ChatServer() as server:
        assert main(command(server, tmp_path, "--call-budget", "3", "--concurrency", "1")) == 3
        assert not (tmp_path / "direct-toy" / "POPE" / "scores.json").exists()
        assert main(command(server, tmp_path, "--call-budget", "2", "--concurrency", "1", "--allow-missing")) == 3
        assert scores(tmp_path)["questions"] == 5 and scores(tmp_path)["missing"] == 1
        said = capfd.readouterr()
        assert "the call budget of 2 is spent" in said.err and "5 of 6 questions done, 1 owed" in said.err
        assert "direct-toy" in said.out, "the table of what there is"
        assert main(command(server, tmp_path)) == 0
        assert len(server.requests) == ROWS


def test_answers_that_an_earlier_run_could_not_read_are_counted_by_the_next(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ChatServer(always(lambda: completion("The weather is fine."))) as server:
        for _ in range(2):
            assert main(command(server, tmp_path)) == 0
            assert f"{ROWS} of {ROWS} questions done, 0 owed, {ROWS} unparsed" in capfd.readouterr().err


def test_a_run_that_is_repeated_keeps_its_record_and_one_that_goes_on_gets_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "direct-toy" / "POPE" / "run.json"
    with ChatServer() as server:
        monkeypatch.setattr(sys, "argv", ["first"])
        assert main(command(server, tmp_path, "--limit", "4")) == 0
        first = record.read_bytes()
        monkeypatch.setattr(sys, "argv", ["second"])
        assert main(command(server, tmp_path, "--limit", "4")) == 0
        assert record.read_bytes() == first
        assert main(command(server, tmp_path)) == 0
        assert json.loads(record.read_bytes())["command"] == ["second"]
        record.write_text("{")
        assert main(command(server, tmp_path)) == 0
        assert json.loads(record.read_bytes())["counts"]["questions"] == ROWS


def test_a_budget_holds_over_all_backbones(tmp_path: Path) -> None:
    with ChatServer() as server:
        assert main(command(server, tmp_path, "--call-budget", "8", backbone="openai:one openai:other")) == 3
        assert len(server.requests) == 8


def test_a_judge_that_does_not_answer_is_found_before_a_call_is_spent_and_costs_no_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    table = f"MMStar={DATA / TINY['MMStar']}"
    with ChatServer() as server:
        swap = {"POPE": "MMStar", f"POPE={TABLE}": table}
        run = [swap.get(part, part) for part in command(server, tmp_path)]
        assert main([*run, "--judge", "gpt-9-nope"]) == 2
        assert not server.requests and "the judge 'gpt-9-nope' does not answer" in capfd.readouterr().err
        assert main(run) == 0
        before = (tmp_path / "direct-toy" / "MMStar" / "scores.json").read_bytes()
        assert main([*run, "--judge", "gpt-9-nope"]) == 2
    assert (tmp_path / "direct-toy" / "MMStar" / "scores.json").read_bytes() == before


def test_a_wrong_second_backbone_is_found_before_the_first_plays(tmp_path: Path) -> None:
    with ChatServer() as server:
        assert main(command(server, tmp_path, backbone="openai:toy vlmevalkit:NoSuchModel")) == 2
        assert not server.requests


@pytest.mark.parametrize("content", ["[]", "null", '"x"', "{", "folder"])
def test_a_damaged_plan_is_one_line(tmp_path: Path, content: str, capfd: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "direct-toy" / "POPE" / "plan.json"
    if content == "folder":
        plan.mkdir(parents=True)
    else:
        plan.parent.mkdir(parents=True)
        plan.write_text(content)
    with ChatServer() as server:
        assert main(command(server, tmp_path)) == 2
        assert not server.requests
    assert "plan.json is damaged" in capfd.readouterr().err


def test_a_folder_is_not_continued_with_other_settings(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ChatServer() as server:
        assert main(command(server, tmp_path, "--seed", "1")) == 0
        asked = len(server.requests)
        assert main(command(server, tmp_path, "--seed", "2")) == 2
        assert "seed was 1, is 2" in capfd.readouterr().err
        assert len(server.requests) == asked


def test_a_limit_may_grow_and_shrink(tmp_path: Path) -> None:
    with ChatServer() as server:
        for limit, asked in (("2", 2), ("4", 4), ("3", 4), ("99", ROWS)):
            assert main(command(server, tmp_path, "--limit", limit)) == 0
            assert len(server.requests) == asked
            assert scores(tmp_path)["questions"] == min(int(limit), ROWS) and scores(tmp_path)["limit"] == int(limit)


def test_a_run_without_counterfactual_pictures_says_that_it_played_without_an_undercover(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ChatServer() as server:
        assert main(command(server, tmp_path, "--limit", "2", method="mug")) == 0
    assert "2 of 2 questions had no counterfactual picture and were played without an undercover" in capfd.readouterr().err
    assert scores(tmp_path, "mug-toy")["game"]["ended"] == {"no_counterfactual_picture": 2}


def test_sigterm_ends_a_run_cleanly_even_where_interrupts_are_ignored(tmp_path: Path) -> None:
    """A background job of a shell script ignores SIGINT; a cluster's time limit sends SIGTERM."""

    async def slowly(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        import asyncio

        await asyncio.sleep(0.3 if len(server.requests) < 3 else 600)
        return completion("Answer: No")

    with ChatServer(slowly) as server:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "import sys; from mug_eval.cli import main; sys.exit(main(sys.argv[1:]))"),
                *command(server, tmp_path, "--concurrency", "2"),
            ],
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        until = time.monotonic() + 600
        while len(server.requests) < 3 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "interrupted" in said and "Traceback" not in said


def test_games_depend_on_their_own_methods_files_and_on_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new method in a new file must not keep older runs from being continued; a changed prompt of their own must."""
    import shutil

    import mug_eval
    from mug_eval import results
    from mug_eval.methods import methods

    copy = tmp_path / "mug_eval"
    shutil.copytree(Path(mug_eval.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(results, "__file__", str(copy / "results.py"))

    def fingerprints() -> dict[str, str]:
        return {name: results.method_fingerprint(method) for name, method in methods().items()}

    def changed(file: str) -> set[str]:
        before = fingerprints()
        path = copy / file
        path.write_text((path.read_text() if path.exists() else "") + "# changed\n")
        after = fingerprints()
        return {name for name in before if before[name] != after[name]}

    everything = set(methods())
    assert changed("methods/second_opinion.py") == set()
    assert changed("methods/mug_prompts.py") == {"mug"}
    assert changed("methods/debate.py") == {"mad-vote", "mad-judge", "mug"}
    assert changed("methods/chain_of_thought.py") == everything - {"direct", "mad-vote", "mad-judge"}
    assert changed("methods/conversation.py") == everything
    assert changed("answers/yes_no.py") == everything


def test_a_model_in_this_process_is_loaded_once_for_all_its_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = save_qwen(tmp_path / "model")
    loaded = []
    load = transformers_vlm.load_weights
    monkeypatch.setattr(transformers_vlm, "load_weights", lambda opened: loaded.append(opened.name) or load(opened))
    argv = ["--model", f"direct-hf:{folder}", f"sc2-hf:{folder}", "--data", "POPE", "--data-file", f"POPE={TABLE}", "--quiet"]
    args = parser().parse_args([*argv, "--work-dir", str(tmp_path / "out"), "--set", "sampling.max_tokens=2"])
    made = make_plan(args)
    cold, warm = (replace(job, sampling=replace(job.sampling, temperature=t)) for job, t in zip(made.jobs, (0.0, 1.0), strict=True))
    assert evaluate(replace(made, jobs=(cold, warm))) == 0
    assert loaded == [str(folder)]
    said = capfd.readouterr().err
    assert "questions done" in said and "Loading" not in said, "no bars of libraries in a log"
