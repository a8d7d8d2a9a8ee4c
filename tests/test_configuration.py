"""Settings: what is taken, and what is said when one is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from mug_eval.configuration import as_json, config_hash, field_notes, load_config, merge, parse_set, resolve
from mug_eval.errors import UserError


@dataclass(frozen=True)
class Gate:
    threshold: float = 0.5
    samples: int = 3


@dataclass(frozen=True)
class Game:
    agents: int = 3
    stop: Literal["fixed", "adaptive"] = "fixed"
    weights: tuple[float, ...] = (1.0, 1.0)
    box: tuple[int, int] | None = None
    seats: bool = True
    note: str = ""
    pictures: Literal[1, 2] = 1
    top_p: float | None = None
    gate: Gate = field(default_factory=Gate)

    def __post_init__(self) -> None:
        if self.agents < 2:
            raise ValueError("agents must be at least 2")


@dataclass(frozen=True)
class Needs:
    rounds: int


def built(*settings: str) -> Game:
    return resolve(Game, parse_set(settings).get("game", {}), where="game")


@pytest.mark.parametrize(
    ("setting", "name", "value"),
    [
        ("game.agents=4", "agents", 4),
        ("game.agents=+4", "agents", 4),
        ("game.stop=adaptive", "stop", "adaptive"),
        ("game.weights=[2, 0.5]", "weights", (2.0, 0.5)),
        ("game.weights=[]", "weights", ()),
        ("game.box=[224,112]", "box", (224, 112)),
        ("game.box=null", "box", None),
        ("game.seats=false", "seats", False),
        ("game.note=no", "note", "no"),
        ("game.note=a=b", "note", "a=b"),
        ('game.note="3"', "note", "3"),
        ("game.note=2024-01-01", "note", "2024-01-01"),
        ("game.top_p=1e-3", "top_p", 0.001),
        ("game.top_p=1", "top_p", 1.0),
        ("game.top_p=", "top_p", None),
        ("game.gate.threshold=0.25", "gate", Gate(threshold=0.25)),
        ("game.gate={samples: 5}", "gate", Gate(samples=5)),
    ],
)
def test_a_setting_becomes_a_typed_value(setting: str, name: str, value: Any) -> None:
    got = getattr(built(setting), name)
    assert got == value
    assert type(got) is type(value)


def test_fields_that_are_not_given_keep_their_defaults() -> None:
    assert built("game.agents=5") == Game(agents=5)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("game.agnets=4", ["agnets", "did you mean agents", "stop, weights", "gate"]),
        ("game.zzz=4", ["zzz", "agents, stop, weights"]),
        ("game.gate.treshold=1", ["game.gate", "did you mean threshold?"]),
        ("game.agents=four", ["game.agents", '"four"', "a whole number"]),
        ("game.agents=4.0", ["game.agents", "4.0", "a whole number"]),
        ("game.agents=true", ["game.agents", "true", "a whole number"]),
        ("game.agents=010", ["game.agents", "a whole number"]),
        ("game.agents=1", ["agents must be at least 2", "game.agents=1"]),
        ("game.stop=adaptiv", ["game.stop", "fixed | adaptive", "did you mean adaptive?"]),
        ("game.stop=1", ["game.stop", "fixed | adaptive"]),
        ("game.pictures=true", ["game.pictures", "1 | 2"]),
        ("game.pictures=2.0", ["game.pictures", "1 | 2"]),
        ("game.seats=yes", ["game.seats", "true or false"]),
        ("game.seats=1", ["game.seats", "true or false"]),
        ("game.note=3", ["game.note", "a text", "quote"]),
        ("game.top_p=.inf", ["game.top_p", "a number or null"]),
        ("game.top_p=1e999", ["game.top_p", "a number or null"]),
        ("game.top_p=nan", ["game.top_p", "a number or null"]),
        ("game.weights=3", ["game.weights", "a list of a number"]),
        ("game.weights=[1, x]", ["game.weights[1]", '"x"', "a number"]),
        ("game.box=[1,2,3]", ["game.box", "a list of 2"]),
        ("game.gate=3", ["game.gate", "a mapping"]),
    ],
)
def test_a_wrong_setting_is_named_with_what_is_allowed(setting: str, said: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        built(setting)
    message = str(caught.value)
    assert "\n" not in message
    for piece in said:
        assert piece in message


def test_a_field_without_default_must_be_set() -> None:
    with pytest.raises(UserError, match=r"game\.rounds must be set"):
        resolve(Needs, {}, where="game")


def test_a_config_type_that_cannot_be_read_is_a_programming_error() -> None:
    @dataclass(frozen=True)
    class Odd:
        where: Path = Path()

    with pytest.raises(TypeError, match="where"):
        resolve(Odd, {"where": "x"})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["mug.agents"], "NAME.FIELD=VALUE"),
        (["=4"], "NAME.FIELD=VALUE"),
        (["mug..agents=4"], "NAME.FIELD=VALUE"),
        (["mug.agents=[1"], "no YAML value"),
        (["mug.agents=*a"], "aliases"),
        (["mug.agents=4", "mug.agents=5"], "twice"),
        (["mug=4", "mug.agents=5"], "keep one"),
        (["mug.gate={a: 1, a: 2}"], "twice"),
        (["mug.agents=!!python/object:os.system 1"], "no YAML value"),
        (["mug.agents=" + "[" * 5000], "no YAML value"),
        (["mug.agents=" + "9" * 5000], "no YAML value"),
    ],
)
def test_a_malformed_set_is_one_clear_line(settings: list[str], said: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_set(settings)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_set_wins_over_the_file_field_by_field() -> None:
    merged = merge({"mug": {"agents": 5, "rounds": 2}}, parse_set(["mug.agents=4", "sampling.top_k=1"]))
    assert merged == {"mug": {"agents": 4, "rounds": 2}, "sampling": {"top_k": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mug:\n  agents: 4\n  agents: 5\n", ["line 3", "'agents' is there twice"]),
        ("mug:\n  agents: [4\n", ["line 3"]),
        ("mug: {agents: 4}\n\tx: 1\n", ["line 2"]),
        ("- mug\n", ["a mapping", "a list"]),
        ("base: &b {agents: 4}\nmug: *b\n", ["line 2", "aliases"]),
        ("1: 2\n", ["line 1", "not a name"]),
        ("a: 1\n---\nb: 2\n", ["line 2"]),
        ("mug: !!python/name:os.system\n", ["line 1"]),
    ],
)
def test_a_bad_config_file_is_named_with_its_line(tmp_path: Path, text: str, said: list[str]) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert "settings.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)
    for piece in said:
        assert piece in str(caught.value)


def test_a_config_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"bytes\.yaml: not UTF-8"):
        load_config(tmp_path / "bytes.yaml")


def test_a_config_file_is_the_same_shape_as_set(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("mug:\n  agents: 4\n  gate: {threshold: 1e-3}\n")
    assert load_config(path) == parse_set(["mug.agents=4", "mug.gate.threshold=1e-3"])
    path.write_text("# nothing yet\n")
    assert load_config(path) == {}


def test_a_config_survives_its_own_json() -> None:
    game = Game(weights=(1.0, 2.0), box=(1, 2), gate=Gate(samples=9))
    assert resolve(Game, as_json(game)) == game


def test_the_hash_depends_on_values_and_not_on_the_order_or_spelling() -> None:
    assert config_hash({"a": 1, "b": [2]}) == config_hash({"b": [2], "a": 1})
    assert config_hash(as_json(built("game.top_p=1"))) == config_hash(as_json(built("game.top_p=1.0")))
    assert config_hash(as_json(built("game.agents=4"))) != config_hash(as_json(built("game.agents=5")))
    # Written out once so that a change of the canonical form, which would orphan every run on disk, is seen.
    assert config_hash({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_every_field_is_listed_with_what_it_takes_and_its_default() -> None:
    notes = {note.name: (note.takes, note.default) for note in field_notes(Game)}
    assert notes["agents"] == ("a whole number", "3")
    assert notes["stop"] == ("fixed | adaptive", "fixed")
    assert notes["gate.threshold"] == ("a number", "0.5")
    assert notes["box"] == ("a list of 2: a whole number, a whole number or null", "null")
    assert [note.default for note in field_notes(Needs)] == [""]
