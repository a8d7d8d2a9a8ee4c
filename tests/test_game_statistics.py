"""What is counted in games, on games short enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from run_folders import game, write_run

from mug_eval.statistics.games import GameStatistics, game_statistics
from mug_eval.statistics.runs import by_seed, read_run

SEATS = ("Agent 1", "Agent 2", "Agent 3", "Agent 4")
ODD = "Agent 2"


def statement(seat: str, answer: str | None, number: int = 1, phase: str = "observe") -> dict[str, Any]:
    return {"event": "statement", "round": number, "phase": phase, "seat": seat, "text": "...", "answer": answer}


def vote(number: int, seat: str, choice: str | None) -> dict[str, Any]:
    return {
        "event": "vote",
        "round": number,
        "seat": seat,
        "vote": choice,
        "ratings": None,
        "reason": "",
        "asked_again": choice is None,
    }


def mug_game(index: str, first: str, found: int | None, rounds: int, lost: int, votes: list[Any], edit: str) -> dict[str, Any]:
    """A game of four; ``first`` are the first answers seat by seat, ``?`` for none."""
    facts = {"undercover_played": True, "undercover_found": found is not None, "found_round": found, "detection_rounds": rounds}
    told = [statement(seat, None if said == "?" else said) for seat, said in zip(SEATS, first, strict=True)]
    seats = {"event": "seats", "order": list(SEATS), "undercover": ODD, "edit": {"edit": edit, "target": "a cup"}}
    later = [statement("Agent 1", "B", 2, "reason"), statement("Agent 1", "A", 1, "summary")]
    return game(index, facts={**facts, "normals_lost": lost}, events=[seats, *told, *later, *votes])


def statistics(tmp_path: Path, games: list[dict[str, Any]], right: dict[str, bool], **changes: Any) -> GameStatistics:
    folder = write_run(tmp_path, right, model="mug-toy", games=games, config={"config": {"detection_rounds": 3}}, **changes)
    (group,) = by_seed([read_run(folder)])
    return game_statistics(group)


@pytest.fixture
def told(tmp_path: Path) -> GameStatistics:
    """Gold is A everywhere. Found in round 1; found in round 2; never found; no picture to be had; no answer and no picture."""
    one = [vote(2, "Agent 1", ODD), vote(2, "Agent 3", ODD), vote(2, "Agent 4", "Agent 1"), vote(2, ODD, "Agent 1")]
    two = [*(vote(2, seat, "Agent 4") for seat in ("Agent 1", ODD, "Agent 3")), vote(2, "Agent 4", None)]
    two += [vote(3, "Agent 1", ODD), vote(3, "Agent 3", ODD), vote(3, ODD, "Agent 1")]
    games = [
        mug_game("1", "ABAB", 1, 1, 0, one, "remove"),
        mug_game("2", "BABB", 2, 2, 1, two, "recolour"),
        mug_game("3", "AAA?", None, 2, 2, [], "remove"),
        game("4", facts={"undercover_played": False}, events=[statement("Agent 1", "B")]),
        game("5", answer={"unparsed": "unclear"}, facts={"undercover_played": False}),
    ]
    return statistics(tmp_path, games, {"1": True, "2": True, "3": False, "4": False, "5": False})


def test_the_undercover_is_found_or_survives_round_by_round(told: GameStatistics) -> None:
    hunt = told.detection
    assert hunt is not None and hunt.games == 3
    assert hunt.found.value == pytest.approx(2 / 3)
    assert [(r.number, r.voting, r.survived.value) for r in hunt.rounds] == [
        (1, 3, pytest.approx(2 / 3)),
        (2, 2, pytest.approx(1 / 3)),
    ]
    assert hunt.normals_lost.value == pytest.approx(1)


def test_lots_find_it_as_often_as_lots_do(told: GameStatistics) -> None:
    # Four agents: 1/4 in the first round, 1/3 of what is left in the second; then two are left, and nobody votes.
    hunt = told.detection
    assert hunt is not None
    assert [r.by_chance for r in hunt.rounds] == pytest.approx([0.75, 0.5], abs=1e-5)
    assert hunt.found_by_chance == pytest.approx(0.5)
    assert hunt.above_chance.value == pytest.approx(2 / 3 - 0.5)


def test_only_normal_agents_votes_are_accuracy_and_an_unread_ballot_is_none(told: GameStatistics) -> None:
    hunt = told.detection
    assert hunt is not None and hunt.normal_votes is not None
    # Round 1 of game 1: 2 of 3; of game 2: 0 of 2, one abstains; round 2 of game 2: 2 of 2.
    assert (hunt.normal_votes.n, hunt.normal_votes.value) == (7, pytest.approx(4 / 7))
    assert hunt.votes_by_chance == pytest.approx((5 / 3 + 2 / 2) / 7)
    assert hunt.abstentions == 1 and told.asked_again == 1
    assert hunt.normal_votes.clusters == 2, "votes of one game are not independent"


def test_first_answers_of_agents_over_the_true_picture_are_held_against_the_last(told: GameStatistics) -> None:
    # Game 1 (right): A, A, B. Game 2 (right): B, B, B. Game 3 (wrong): A, A and one unread. Game 4 (wrong): B.
    changed = told.changed
    assert changed is not None and changed.first_answers == 9
    assert changed.wrong_to_right.value == pytest.approx(4 / 9)
    assert changed.right_to_wrong.value == pytest.approx(2 / 9)
    assert (changed.stayed_right, changed.stayed_wrong) == (pytest.approx(2 / 9), pytest.approx(1 / 9))


def test_what_could_not_be_read_is_counted(told: GameStatistics) -> None:
    assert (told.games, told.unparsed, told.silent) == (5, 1, 1)
    assert told.right.value == pytest.approx(2 / 5)


def test_games_are_divided_by_category_and_by_edit(told: GameStatistics) -> None:
    assert {value: part.games for value, part in told.by["edit"].items()} == {"recolour": 1, "remove": 2}
    assert told.by["edit"]["remove"].detection is not None
    assert told.by["edit"]["remove"].detection.found.value == pytest.approx(0.5)
    assert {value: part.games for value, part in told.by["category"].items()} == {"shape": 5}


def test_an_open_answer_is_not_held_against_gold_here(tmp_path: Path) -> None:
    rows = {"1": {"A": "", "answer": "a cup", "category": "c", "prediction": "a cup"}}
    found = statistics(tmp_path, [game("1", events=[statement("Agent 1", "cup")])], {"1": True}, rows=rows)
    assert found.changed is None, "only the scorer can read it"


def test_a_draft_is_a_first_answer(tmp_path: Path) -> None:
    draft, final = ({"event": "answer", "seat": "solver", "text": "", "answer": said, "asked_again": False} for said in "BA")
    found = statistics(tmp_path, [game("1", events=[draft, final])], {"1": True})
    assert found.changed is not None and found.changed.wrong_to_right.value == 1
    alone = statistics(tmp_path / "direct", [game("1", events=[draft])], {"1": False})
    assert alone.changed is None, "an answer that nothing follows cannot change"


def test_seeds_of_a_question_are_one_cluster(tmp_path: Path) -> None:
    right = {"1": True, "2": False, "3": True}
    runs = [read_run(write_run(tmp_path / str(seed), right, seed=seed)) for seed in (0, 1)]
    (group,) = by_seed(runs)
    found = game_statistics(group)
    assert (found.games, found.right.clusters) == (6, 3)
