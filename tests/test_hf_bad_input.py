"""What goes wrong with a model in this process: the command says it in one line, and the questions that can be played are."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tables import picture, pope_row, write_table
from tiny_vlm import qwen_tokenizer, save_qwen
from transformers import AutoModelForImageTextToText, LlamaConfig, LlamaForCausalLM

from mug_eval.backbones import hf_loading
from mug_eval.backbones.transformers_vlm import TransformersVLM
from mug_eval.chat import ImageRef, Message, MisconfiguredError, Sampling
from mug_eval.cli import main
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.games import GamesFile
from mug_eval.engine.journal import Journal
from mug_eval.engine.runner import Setting, play_questions
from mug_eval.errors import UserError
from mug_eval.images import load_image
from mug_eval.methods import methods
from mug_eval.question import Answer, AnswerFormat, Question, Unparsed

RED = base64.b64decode(picture("red"))


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


@pytest.fixture(scope="module")
def text_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model without eyes."""
    folder = tmp_path_factory.mktemp("text_only")
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), eos_token_id=2, **sizes)).save_pretrained(folder)
    return folder


def run(folder: Path | str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *rows: dict[str, object]) -> tuple[int, list[str]]:
    """The exit code of the real command and the lines of its standard error."""
    table = write_table(tmp_path / "pope.tsv", rows or [pope_row(0), pope_row(1)])
    argv = ["run", "--model", f"direct-hf:{folder}", "--data", "POPE", "--data-file", f"POPE={table}", "--device", "cpu", "--quiet"]
    code = main([*argv, "--work-dir", str(tmp_path / "out"), "--set", "sampling.max_tokens=8"])
    return code, capsys.readouterr().err.splitlines()


def error_line(lines: list[str]) -> str:
    """The one line that tells of the mistake: the last, and no traceback above it."""
    assert [line.startswith("mug-eval: error: ") for line in lines].count(True) == 1
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


def only_config(text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for path in folder.iterdir():
            path.unlink()
        (folder / "config.json").write_text(text)

    return make


def without(*patterns: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for path in [path for pattern in patterns for path in folder.glob(pattern)]:
            path.unlink()

    return make


def torn_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:20_000])


def some_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    gone = next(name for name in weights if "mlp" in name)
    save_file({name: value for name, value in weights.items() if name != gone}, folder / "model.safetensors", {"format": "pt"})


FOLDERS: dict[str, tuple[Callable[[Path], None], str]] = {
    "is empty": (without("*"), "the folder holds no model (no config.json in it)"),
    "has a config that is no JSON": (only_config("{nope"), "the folder holds no model that transformers can open"),
    "has a config of no model": (only_config("{}"), "the folder holds no model that transformers can open"),
    "is of an unknown architecture": (only_config('{"model_type": "nonesuch"}'), "model type `nonesuch`"),
    "has no weights": (without("*.safetensors"), "the folder holds no weights"),
    "has torn weights": (torn_weights, "the folder holds no model that transformers can open (SafetensorError"),
    "lacks some weights": (some_weights, "the weights lack 1 of the model's parameters ("),
    "has no tokenizer": (without("token*"), "has no vocabulary"),
    "has no processor": (
        without("*processor*"),
        "of how pictures are prepared (no processor_config.json, no preprocessor_config.json in it)",
    ),
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_that_is_no_model_is_one_line(folder: str, qwen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spoil, said = FOLDERS[folder]
    copy = Path(shutil.copytree(qwen, tmp_path / "model"))
    spoil(copy)
    code, lines = run(copy, tmp_path, capsys)
    assert code == 2
    assert said in error_line(lines)


def test_a_hub_name_that_is_not_reached_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, lines = run("Nobody/No-Model", tmp_path, capsys)
    assert code == 2
    assert "`hf download Nobody/No-Model --local-dir DIR` fetches it; then name the folder: hf:DIR" in error_line(lines)


def test_too_little_memory_says_how_much_is_wanted(
    qwen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    large = Path(shutil.copytree(qwen, tmp_path / "large"))
    with (large / "model.safetensors").open("r+b") as file:
        file.truncate(300 << 30)  # a hole: no disk is used
    monkeypatch.setattr(hf_loading, "free_memory", lambda device: 5 << 30)
    code, lines = run(large, tmp_path, capsys)
    assert code == 2
    assert "wants 300.0 GiB for its weights alone, and there are 5.0 GiB free on cpu" in error_line(lines)


def test_a_model_of_the_hub_is_measured_before_its_weights_are_fetched(
    qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache holds all but the weights."""
    repository = tmp_path / "models--Nobody--Large"
    snapshot = repository / "snapshots" / "abc"
    shutil.copytree(qwen, snapshot, ignore=shutil.ignore_patterns("*.safetensors"))
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    config = json.loads((snapshot / "config.json").read_text())
    config["text_config"] |= {"num_hidden_layers": 40, "intermediate_size": 40_000_000 // 32}
    config["text_config"]["layer_types"] = ["full_attention"] * 40
    (snapshot / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hf_loading, "free_memory", lambda device: 1 << 30)
    with pytest.raises(
        UserError, match=r"hf:Nobody/Large wants 17\.9 GiB for its weights alone, and there are 1\.0 GiB free on cpu"
    ):
        TransformersVLM("Nobody/Large", device="cpu", dtype="fp32")


async def test_memory_that_runs_out_while_loading_says_how_much_is_wanted(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate")

    model = TransformersVLM(str(qwen), device="cpu")
    monkeypatch.setattr(AutoModelForImageTextToText, "from_pretrained", full)
    with pytest.raises(MisconfiguredError, match=r"wants \d\.\d GiB for its weights alone and does not fit into the memory of cpu"):
        await model.chat([Message("user", ("Why?",))], Sampling())
    await model.close()


def test_a_picture_that_cannot_be_shown_is_owed_and_the_others_are_played(
    qwen: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(qwen, tmp_path, capsys, pope_row(0, image=picture(size=(600, 2))), pope_row(1))
    assert code == 3
    assert any("question 0 is owed" in line and "does not take a picture of 600x2 pixels" in line for line in lines)
    assert any("1 of 2 questions done, 1 owed" in line for line in lines)


def test_a_picture_over_the_context_is_said_and_never_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = save_qwen(tmp_path / "small", context=48)
    code, lines = run(small, tmp_path, capsys, pope_row(0, image=picture(size=(600, 600))), pope_row(1))
    assert code == 3
    assert any("question 0 is owed: a picture takes 49 tokens and" in line and "has a context of 48" in line for line in lines)
    assert any("question 1 is owed: the prompt has" in line for line in lines)
    owed = [line for line in lines if " is owed: " in line]
    assert owed and not any(str(tmp_path) in line for line in owed), "a record tells nothing of where models are kept"


def test_a_model_without_eyes_owes_the_questions_with_pictures(
    text_only: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, lines = run(text_only, tmp_path, capsys)
    assert code == 3
    owed = [line for line in lines if "is owed" in line]
    assert len(owed) == 2
    assert all("takes no pictures: it can play text-only questions" in line for line in owed)
    assert not any("Traceback" in line for line in lines)


class WithAndWithout:
    """Question 0 has a picture, question 1 has none."""

    name = "Both"
    indices = ("0", "1")

    def question(self, index: str) -> Question:
        shown: tuple[ImageRef, ...] = () if index == "1" else (load_image(RED),)
        return Question(self.name, index, (*shown, "Is a dog an animal? Please answer yes or no."), AnswerFormat("yes_no"))

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        return ""


@pytest.mark.parametrize("name", ["direct", "mug", "cfmad"])
async def test_a_model_without_eyes_plays_text_only_questions(name: str, text_only: Path, tmp_path: Path) -> None:
    model, method = TransformersVLM(str(text_only), device="cpu"), methods()[name]
    setting = Setting(method, method.config(), Sampling(temperature=0, max_tokens=4), 0)
    with Journal(tmp_path / "journal.sqlite") as journal, GamesFile(tmp_path / "games.jsonl") as games:
        dispatcher = Dispatcher(model, journal, DispatchPolicy())
        owed = await play_questions(WithAndWithout(), setting, dispatcher, games, games_in_flight=2)
        assert [one.index for one in owed] == ["0"]
        assert "takes no pictures" in owed[0].reason
        assert games.record("1")["usage"]["calls"] > 0
    await model.close()
