"""Plans: names resolved, settings applied, mistakes found before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mug_eval.backbones.model_folder import folder_hash
from mug_eval.chat import Sampling
from mug_eval.cli.run import parser
from mug_eval.differences import differences
from mug_eval.errors import UserError
from mug_eval.identity import identity
from mug_eval.methods import methods
from mug_eval.plan import Job, Plan, make_plan, safe_name, split_model
from mug_eval.reference_vlm.weights import SHIPPED


def plan(*argv: str) -> Plan:
    return make_plan(parser().read(argv))


def job(*argv: str) -> Job:
    (only,) = plan(*argv, "--data", "POPE").jobs
    return only


def complaint(*argv: str) -> str:
    with pytest.raises(UserError) as caught:
        plan(*argv)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_jobs_are_models_times_benchmarks_in_the_order_given() -> None:
    jobs = plan("--model", "mug-qwen", "direct-internvl", "--data", "MMStar", "POPE").jobs
    assert [(job.model, job.benchmark) for job in jobs] == [
        ("mug-qwen", "MMStar"),
        ("mug-qwen", "POPE"),
        ("direct-internvl", "MMStar"),
        ("direct-internvl", "POPE"),
    ]
    assert jobs[0].title == "mug-qwen on MMStar"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mug-qwen", ("mug", "qwen")),
        ("mad-vote-qwen", ("mad-vote", "qwen")),
        ("mad-judge-gpt-4o-mini", ("mad-judge", "gpt-4o-mini")),
        ("self-refine-gpt-4o", ("self-refine", "gpt-4o")),
        ("sc12-gpt-4o-mini", ("sc12", "gpt-4o-mini")),
        ("sc-qwen", ("sc", "qwen")),
    ],
)
def test_a_model_is_split_at_the_method(name: str, parts: tuple[str, str]) -> None:
    assert split_model(name) == parts


def test_the_longest_method_that_fits_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = {"mad": replace(methods()["mad-vote"], name="mad")}
    monkeypatch.setattr("mug_eval.plan.methods", lambda: shorter | methods())
    assert split_model("mad-vote-qwen") == ("mad-vote", "qwen")
    assert split_model("mad-qwen") == ("mad", "qwen")


def test_sc_with_a_number_is_self_consistency_with_so_many_chains() -> None:
    played = job("--model", "sc12-qwen")
    assert (played.model, played.method.name, played.config.k) == ("sc12-qwen", "sc", 12)
    assert job("--model", "sc12-qwen", "--set", "sc.temperature=0.5").config.temperature == 0.5
    assert "sc12-qwen already says k=12" in complaint("--model", "sc12-qwen", "--data", "POPE", "--set", "sc.k=5")
    assert "k must be at least 1" in complaint("--model", "sc0-qwen", "--data", "POPE")
    assert "sc.FIELD" in complaint("--model", "sc3-qwen", "--data", "POPE", "--set", "sc3.temperature=1")


def test_two_sizes_of_self_consistency_are_two_models() -> None:
    assert [job.config.k for job in plan("--model", "sc3-qwen", "sc5-qwen", "--data", "POPE").jobs] == [3, 5]


def test_any_model_is_played_by_kind_and_name() -> None:
    played = job("--method", "mug", "--backbone", "openai:rig-vlm-0.5b", "--base-url", "http://127.0.0.1:8089/v1")
    assert played.model == "mug-rig-vlm-0.5b"
    assert played.method is methods()["mug"]


def test_the_model_that_comes_with_us_is_played_in_this_process_whatever_server_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUG_EVAL_BASE_URL", "http://127.0.0.1:1/v1")
    backbone = job("--model", "mug-reference").backbone
    assert (backbone.kind, Path(backbone.model)) == ("hf", SHIPPED)
    assert backbone.identity["model"] == "reference"  # not the name of the folder that it happens to lie in
    assert backbone.identity["sha256"] == folder_hash(SHIPPED)


def test_every_method_is_played_by_every_backbone() -> None:
    jobs = plan(
        *(
            "--method",
            "direct",
            "sc3",
            "--backbone",
            "openai:a/b",
            "openai:c",
            "--base-url",
            "http://127.0.0.1:1/v1",
            "--data",
            "POPE",
        )
    ).jobs
    assert [job.model for job in jobs] == ["direct-a-b", "direct-c", "sc3-a-b", "sc3-c"]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen-Qwen2.5-VL-7B-Instruct"),
        ("../../etc/passwd", "etc-passwd"),
        ("a b:c\n", "a-b-c"),
        ("...", "model"),
        ("模型", "model"),
    ],
)
def test_a_folder_name_is_safe_on_any_file_system(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_long_names_that_begin_alike_get_different_folders() -> None:
    one, two = safe_name("x" * 500 + "a"), safe_name("x" * 500 + "b")
    assert one != two
    assert max(len(one), len(two)) <= 120


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], ["--model", "--method", "--list"]),
        (["--model", "mug-qwen"], ["--data", "POPE"]),
        (["--model", "mgu-qwen", "--data", "POPE"], ["mgu-qwen", "did you mean mug-qwen", "backbones: "]),
        (["--model", "mug-qwne", "--data", "POPE"], ["qwne", "did you mean qwen", "mug-KIND:NAME"]),
        (["--model", "mug", "--data", "POPE"], ["<method>-<backbone>", "cfmad"]),
        (["--model", "mug-", "--data", "POPE"], ["unknown backbone ''"]),
        (["--model", "mug-qwen", "mug-qwen", "--data", "POPE"], ["mug-qwen", "twice"]),
        (["--model", "mug-qwen", "--data", "PPOE"], ["PPOE", "did you mean POPE", "MMStar"]),
        (["--model", "mug-qwen", "--data", "POPE", "POPE"], ["POPE", "twice"]),
        (["--method", "mug", "--data", "POPE"], ["add --backbone"]),
        (["--backbone", "openai:x", "--data", "POPE"], ["--model"]),
        (["--method", "mugg", "--backbone", "openai:x", "--data", "POPE"], ["mugg", "did you mean mug"]),
        (["--method", "mug", "--backbone", "opnai:x", "--data", "POPE"], ["opnai", "openai"]),
        (["--model", "mug-qwen", "--data", "POPE", "--data-file", "POPE"], ["NAME=TSV"]),
        (["--model", "mug-qwen", "--data", "POPE", "--data-file", "POPE=no.tsv"], ["no.tsv", "no such file"]),
        (["--model", "mug-qwen", "--data", "POPE", "--data-file", "POPE=."], ["not a file"]),
        (["--model", "mug-qwen", "--data", "POPE", "--data-file", "MMStar=x.tsv"], ["MMStar", "not among"]),
        (["--model", "mug-qwen", "--data", "POPE", "--counterfactuals", "nowhere"], ["nowhere", "no such folder"]),
        (
            ["--method", "mug", "--backbone", "vlmevalkit:x", "--data", "POPE", "--base-url", "http://h/v1"],
            ["vlmevalkit:x", "does not use"],
        ),
        (["--model", "mug-qwen", "--data", "POPE", "--base-url", "localhost:8000"], ["--base-url", "http://127.0.0.1:8000/v1"]),
        (["--model", "mug-qwen", "--data", "POPE", "--base-url", "http://[::1/v1"], ["--base-url", "http://127.0.0.1:8000/v1"]),
        (["--model", "mug-qwen", "--data", "POPE", "--base-url", "http://u:sk-1@h/v1"], ["environment"]),
        (["--model", "mug-qwen", "--data", "POPE", "--config", "no.yaml"], ["no.yaml", "No such file"]),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    argv: list[str], said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = complaint(*argv)
    for piece in said:
        assert piece in message
    assert "sk-1" not in message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["mug.agnets=4"], ["field of mug", "did you mean agents"]),
        (["mug.agents=2"], ["mug: agents must be", "given: mug.agents=2"]),
        (["mug=4"], ["--set mug.FIELD=VALUE"]),
        (["cfmad.rounds=2"], ["cfmad is set but not played", "mug"]),
        (["smapling.top_k=1"], ["smapling", "did you mean sampling"]),
        (["sampling.seed=3"], ["--seed"]),
        (["sampling.temperature=-1"], ["sampling.temperature=-1", "0..2"]),
        (["sampling.top_p=0"], ["sampling.top_p=0", "(0, 1]"]),
        (["sampling.top_k=0"], ["sampling.top_k=0", "at least 1"]),
        (["sampling.max_tokens=0"], ["sampling.max_tokens=0", "at least 1"]),
        (["sampling.max_tokens=1000001"], ["sampling.max_tokens=1000001", "at most 1000000"]),
        (["mug.agents=21"], ["mug.agents=21", "agents must be at most 20"]),
        (["sampling.temprature=1"], ["did you mean temperature"]),
        (["image.size=224"], ["image.size", "224"]),
        (["image.size=axb"], ["WIDTHxHEIGHT"]),
        (["image.size=0x5"], ["1..10000"]),
    ],
)
def test_a_wrong_setting_is_named(settings: list[str], said: list[str]) -> None:
    message = complaint("--model", "mug-qwen", "--data", "POPE", "--set", *settings)
    for piece in said:
        assert piece in message


def test_settings_reach_the_methods_config() -> None:
    played = job("--model", "mug-qwen", "--set", "mug.agents=4", "mug.observation_rounds=2")
    assert (played.config.agents, played.config.observation_rounds) == (4, 2)


def test_set_wins_over_the_config_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("mug: {agents: 5, detection_rounds: 2}\nsampling: {max_tokens: 100}\nimage: {size: 64x32}\n")
    played = job("--model", "mug-qwen", "--config", str(file), "--set", "mug.agents=4")
    assert (played.config.agents, played.config.detection_rounds) == (4, 2)
    assert played.sampling == Sampling(max_tokens=100)
    assert played.image_size == (64, 32)


def test_one_setting_serves_every_job_of_its_method() -> None:
    jobs = plan("--model", "mug-qwen", "direct-qwen", "mug-internvl", "--data", "POPE", "--set", "mug.agents=4").jobs
    assert [getattr(job.config, "agents", None) for job in jobs] == [4, None, 4]


def test_the_native_preset_leaves_everything_to_the_model() -> None:
    played = job("--model", "mug-qwen")
    assert played.sampling == Sampling(None, None, None, 2048, None)
    assert played.image_size is None


def test_the_paper_preset_is_what_the_paper_reports() -> None:
    qwen, internvl = plan("--model", "mug-qwen", "mug-internvl", "--data", "POPE", "--preset", "paper").jobs
    assert qwen.sampling == Sampling(0.2, 0.001, 1, 2048)
    assert internvl.sampling == Sampling(1.0, 1.0, 50, 4096)
    assert qwen.image_size == internvl.image_size == (224, 224)
    mine = job("--model", "mug-qwen", "--preset", "paper", "--set", "sampling.temperature=0.7", "image.size=native")
    assert mine.sampling == Sampling(0.7, 0.001, 1, 2048)
    assert mine.image_size is None


def test_a_backbone_without_paper_settings_says_how_to_set_them() -> None:
    message = complaint("--model", "mug-gpt-4o-mini", "--data", "POPE", "--preset", "paper")
    assert "gpt-4o-mini" in message
    assert "sampling.temperature" in message
    assert "image.size" in message


def test_data_files_go_to_their_benchmark(tmp_path: Path) -> None:
    file = tmp_path / "a=b.tsv"
    file.write_text("index\n")
    jobs = plan("--model", "mug-qwen", "--data", "MMStar", "POPE", "--data-file", f"POPE={file}").jobs
    assert {job.benchmark: job.data_file for job in jobs} == {"MMStar": None, "POPE": file}


def test_how_it_runs_is_taken_over(tmp_path: Path) -> None:
    made = plan(
        *("--model", "mug-qwen", "--data", "POPE", "--work-dir", str(tmp_path), "--concurrency", "3", "--call-budget", "7"),
        *("--token-budget", "9", "--timeout", "1.5", "--retries", "0", "--allow-missing", "--quiet", "--wait", "--dry-run"),
        *(
            "--seed",
            "5",
            "--limit",
            "2",
            "--judge",
            "gpt-4o-mini",
            "--counterfactuals",
            str(tmp_path),
            "--counterfactual-match",
            "image",
        ),
    )
    (only,) = made.jobs
    assert made == Plan(
        jobs=(only,),
        work_dir=tmp_path,
        concurrency=3,
        call_budget=7,
        token_budget=9,
        timeout=1.5,
        retries=0,
        allow_missing=True,
        quiet=True,
        wait=True,
        dry_run=True,
    )
    assert (only.seed, only.limit, only.judge, only.counterfactuals, only.match) == (5, 2, "gpt-4o-mini", tmp_path, "image")


@pytest.mark.parametrize(
    ("said", "of_hf", "of_a_server"), [((), 64, 8), (("--concurrency", "3"), 3, 3), (("--concurrency", "8"), 8, 8)]
)
def test_a_model_in_this_process_gets_many_calls_to_batch_unless_the_user_says_how_many(
    said: tuple[str, ...], of_hf: int, of_a_server: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MUG_EVAL_BASE_URL", raising=False)
    made = plan("--model", "mug-hf:owner/model", "mug-gpt-4o-mini", "--data", "POPE", *said)
    hf, server = made.jobs
    assert (made.calls_in_flight(hf.backbone), made.calls_in_flight(server.backbone)) == (of_hf, of_a_server)


BASE = ("--model", "mug-qwen")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (["--seed", "1"], "seed"),
        (["--set", "mug.agents=4"], "config.agents"),
        (["--set", "sampling.temperature=0"], "sampling.temperature"),
        (["--set", "image.size=8x8"], "image_size"),
    ],
)
def test_what_changes_a_game_changes_the_identity_and_is_named(change: list[str], field: str) -> None:
    before, now = identity(job(*BASE)), identity(job(*BASE, *change))
    (line,) = differences(before, now)
    assert line.startswith(f"{field} was ")
    assert differences(before, before) == []


def test_another_backbone_or_method_is_another_identity() -> None:
    mine = identity(job(*BASE))
    assert any(line.startswith("backbone.") for line in differences(mine, identity(job("--model", "mug-internvl"))))
    assert any(line.startswith("method was mug, is direct") for line in differences(mine, identity(job("--model", "direct-qwen"))))


def test_the_datasets_and_the_counterfactuals_content_count_but_only_where_they_are_looked_at(tmp_path: Path) -> None:
    mug = job(*BASE, "--counterfactuals", str(tmp_path))
    direct = job("--model", "direct-qwen", "--counterfactuals", str(tmp_path))
    one, two = ({"dataset_sha256": "d", "counterfactuals_sha256": sha} for sha in "xy")
    assert differences(identity(mug, **one), identity(mug, **two)) == ["counterfactuals.sha256 was x, is y"]
    assert identity(direct, **one) == identity(direct, **two)
    assert differences(identity(mug, dataset_sha256="d"), identity(mug, dataset_sha256="e")) == ["dataset_sha256 was d, is e"]
    assert differences(identity(job(*BASE)), identity(mug))


@pytest.mark.parametrize("change", [["--limit", "3"], ["--judge", "gpt-4o"]])
def test_limit_and_judge_may_change_between_runs(change: list[str]) -> None:
    assert identity(job(*BASE)) == identity(job(*BASE, *change))
