"""The exact sequence of calls of every method."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from scripted import ALTERED, CHOICE, OPEN, TRUE, YES_NO, ScriptedTable, against, ballot, is_vote, question, says

from mug_eval.chat import Message
from mug_eval.methods import cfmad, mad_judge, mad_vote, methods, mug, self_consistency, self_refine
from mug_eval.methods.cfmad import CfmadConfig
from mug_eval.methods.debate import DebateConfig
from mug_eval.methods.mad_judge import MadJudgeConfig
from mug_eval.methods.mug import MugConfig
from mug_eval.methods.mug_ratings import FACTORS, ratings_schema, read_ratings, suspicion, vote_of
from mug_eval.methods.mug_seating import read_confidence
from mug_eval.methods.self_consistency import SelfConsistencyConfig
from mug_eval.methods.self_refine import SelfRefineConfig
from mug_eval.question import Answer, Unparsed
from mug_eval.seeds import generator


def test_all_eight_methods_are_there() -> None:
    assert sorted(methods()) == ["cfmad", "cot", "direct", "mad-judge", "mad-vote", "mug", "sc", "self-refine"]


# direct, cot, self-consistency


async def test_direct_is_one_call_with_the_benchmarks_own_prompt() -> None:
    table = ScriptedTable(lambda *_: "No.")
    verdict = await methods()["direct"].play(question(), table, methods()["direct"].config())
    assert verdict.answer == Answer("No")
    assert [call.messages[1].parts for call in table.calls] == [question().prompt]


async def test_cot_reasons_in_one_call() -> None:
    table = ScriptedTable(lambda *_: "There is a wagging tail.\nAnswer: Yes")
    verdict = await methods()["cot"].play(question(), table, methods()["cot"].config())
    assert verdict.answer == Answer("Yes") and table.seats == ["solver"]


async def test_self_consistency_takes_the_plurality_of_its_chains() -> None:
    answers = {"chain 1": "B", "chain 2": "A", "chain 3": "B", "chain 4": "C"}
    table = ScriptedTable(lambda seat, *_: f"Answer: {answers[seat]}")
    verdict = await self_consistency.play(question(CHOICE), table, SelfConsistencyConfig(k=4))
    assert verdict.answer == Answer("B") and verdict.facts["agreement"] == 0.5
    assert table.seats == ["chain 1", "chain 2", "chain 3", "chain 4"]
    assert {(call.sampling.temperature, call.sampling.top_p, call.sampling.top_k) for call in table.calls} == {(0.7, None, None)}


async def test_self_consistency_chain_without_an_answer_abstains() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return "Answer: No" if seat == "chain 3" else "Dark, dark, dark, I cannot tell you anything about it whatever you do."

    table = ScriptedTable(script)
    verdict = await self_consistency.play(question(), table, SelfConsistencyConfig(k=3))
    assert verdict.answer == Answer("No")
    assert verdict.facts["agreement"] == pytest.approx(1 / 3), "of all chains, not of those that could be read"


async def test_self_consistency_tie_is_drawn_among_the_tied() -> None:
    answers = {"chain 1": "A", "chain 2": "B", "chain 3": "E"}
    won = set()
    for index in range(60):
        table = ScriptedTable(lambda seat, *_: f"Answer: {answers[seat]}", question_index=str(index))
        verdict = await self_consistency.play(question(CHOICE), table, SelfConsistencyConfig(k=3))
        assert isinstance(verdict.answer, Answer)
        won.add(verdict.answer.value)
    assert won == {"A", "B", "E"}


# self-refine


async def test_self_refine_stops_when_no_change_is_needed() -> None:
    replies = {
        ("solver", 0): "A cat.\nAnswer: No",
        ("critic", 0): "The ears are a dog's.\nChange needed: yes",
        ("solver", 1): "A dog after all.\nAnswer: Yes",
        ("critic", 1): "Fine.\nChange needed: no",
    }
    table = ScriptedTable(lambda seat, number, _: replies[seat, number])
    verdict = await self_refine.play(question(), table, SelfRefineConfig())
    assert table.seats == ["solver", "critic", "solver", "critic"]
    assert verdict.answer == Answer("Yes") and verdict.ended == "no_change" and verdict.facts == {"refinements": 1}
    assert "A cat." in table.calls[1].text and "The ears are a dog's." in table.calls[2].text


async def test_self_refine_ends_after_its_turns() -> None:
    table = ScriptedTable(lambda seat, *_: "Change needed: yes" if seat == "critic" else "Answer: No")
    verdict = await self_refine.play(question(), table, SelfRefineConfig(turns=4))
    assert table.seats == ["solver"] + ["critic", "solver"] * 4
    assert verdict.ended == "turns_used"


async def test_self_refine_without_a_readable_verdict_refines_once_more() -> None:
    table = ScriptedTable(lambda seat, *_: "Hm." if seat == "critic" else "Answer: No")
    verdict = await self_refine.play(question(), table, SelfRefineConfig(turns=1))
    assert table.seats == ["solver", "critic", "critic", "solver"] and verdict.ended == "turns_used"


async def test_self_refine_follows_the_last_verdict_line() -> None:
    table = ScriptedTable(lambda seat, *_: "Change needed: yes\nNo, wait.\nChange needed: no" if seat == "critic" else "Answer: No")
    verdict = await self_refine.play(question(), table, SelfRefineConfig())
    assert verdict.ended == "no_change"


def test_a_verdict_line_that_repeats_the_choice_is_none() -> None:
    assert isinstance(self_refine.change_needed("Change needed: yes or no?"), Unparsed)


# debate


async def test_mad_vote_plays_rounds_in_which_all_read_all() -> None:
    first = {"Agent 1": "Yes", "Agent 2": "No", "Agent 3": "No"}

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return f"Round {number} words of {seat}.\nAnswer: {first[seat] if number == 0 else 'No'}"

    table = ScriptedTable(script)
    verdict = await mad_vote.play(question(), table, DebateConfig(agents=3, rounds=2))
    assert table.seats == ["Agent 1", "Agent 2", "Agent 3"] * 2
    assert verdict.answer == Answer("No") and verdict.facts["agreement"] == 1.0
    for call in table.calls[3:]:
        assert all(f"Round 0 words of Agent {n}." in call.text for n in (1, 2, 3))
    assert all("on their own" in call.text and "Compare" not in call.text for call in table.calls[:3])
    assert all("Compare the others' reasoning with your own" in call.text for call in table.calls[3:])
    shared = {call.text.split("You are Agent")[0] for call in table.calls[3:]}
    assert len(shared) == 1, "all but the private task is one shared prefix"


AGENTS = ["Agent 1", "Agent 2", "Agent 3"]


async def test_mad_judge_may_end_the_debate_once_the_agents_have_heard_each_other() -> None:
    table = ScriptedTable(lambda seat, *_: "Clear.\nAnswer: Yes")
    verdict = await mad_judge.play(question(), table, MadJudgeConfig(rounds=3))
    assert table.seats == [*AGENTS, *AGENTS, "judge"]
    assert verdict.ended == "judged_early" and verdict.answer == Answer("Yes") and verdict.facts == {"rounds": 2}


async def test_mad_judge_undecided_hears_another_round_and_must_decide_at_last() -> None:
    replies = iter(["Both have a point.\nUndecided", "Agent 1 is right.\nAnswer: No"])
    table = ScriptedTable(lambda seat, number, _: next(replies) if seat == "judge" else f"Words {number}.\nAnswer: No")
    verdict = await mad_judge.play(question(), table, MadJudgeConfig(rounds=3))
    assert table.seats == [*AGENTS, *AGENTS, "judge", *AGENTS, "judge"]
    assert verdict.ended == "judged" and verdict.answer == Answer("No")
    judged = [call for call in table.calls if call.seat == "judge"]
    assert "Undecided" in judged[0].text and "Undecided" not in judged[1].text
    assert all(f"> Words {number}." in judged[1].text for number in (0, 1, 2)), "all rounds"


async def test_mad_judge_that_cannot_be_read_hears_another_round() -> None:
    replies = iter(["It is dark, so very dark.", "Still dark.", "Answer: No"])
    table = ScriptedTable(lambda seat, *_: next(replies) if seat == "judge" else "Answer: No")
    verdict = await mad_judge.play(question(), table, MadJudgeConfig(rounds=3))
    assert table.seats == [*AGENTS, *AGENTS, "judge", "judge", *AGENTS, "judge"]
    assert verdict.answer == Answer("No")


async def test_mad_judge_that_decides_after_weighing_is_not_undecided() -> None:
    reply = "At first I was\nundecided\nbut the tail settles it.\nAnswer: Yes"
    table = ScriptedTable(lambda seat, *_: reply if seat == "judge" else "Answer: No")
    verdict = await mad_judge.play(question(), table, MadJudgeConfig(rounds=3))
    assert verdict.ended == "judged_early" and verdict.answer == Answer("Yes")


async def test_mad_judge_asked_only_at_the_end_without_early_stop() -> None:
    table = ScriptedTable(lambda seat, *_: "Answer: Yes")
    await mad_judge.play(question(), table, MadJudgeConfig(rounds=2, early_stop=False))
    assert table.seats.count("judge") == 1 and table.seats[-1] == "judge"


# CFMAD


async def test_cfmad_argues_criticises_rebuts_every_stance_and_judges() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return "Answer: B" if seat == "judge" else f"<{seat} speaks, {number}>"

    table = ScriptedTable(script)
    verdict = await cfmad.play(question(CHOICE), table, CfmadConfig(rounds=2))
    advocates, critics = [[f"{who} {letter}" for letter in "ABCE"] for who in ("advocate", "critic")]
    assert table.seats == [*advocates, *critics, *advocates, *critics, *advocates, "judge"]
    assert len(table.calls) == 4 * (1 + 2 * 2) + 1
    assert verdict.answer == Answer("B")
    judged = table.calls[-1].text
    for letter in "ABCE":
        case = [f"<advocate {letter} speaks, 0>", f"<critic {letter} speaks, 0>", f"<advocate {letter} speaks, 1>"]
        assert [judged.index(part) for part in case] == sorted(judged.index(part) for part in case)
    assert [judged.count(f'Case for "{letter}. ') for letter in "ABCE"] == [1, 1, 1, 1]
    assert judged.index('Case for "B. a dog"') < judged.index("<advocate B speaks, 0>")
    critic_of_b = table.calls[5]
    assert "<advocate B speaks, 0>" in critic_of_b.text and "<advocate A" not in critic_of_b.text
    assert "B. a dog" in critic_of_b.text


async def test_cfmad_yes_no_has_two_stances_in_seeded_order_before_the_judge() -> None:
    orders = set()
    for index in range(20):
        table = ScriptedTable(says("Yes"), question_index=str(index))
        await cfmad.play(question(YES_NO), table, CfmadConfig())
        assert len(table.calls) == 2 * 3 + 1
        orders.add(tuple(table.happened("judgement")[0]["order"]))
    assert orders == {("Yes", "No"), ("No", "Yes")}


async def test_cfmad_top2_takes_the_first_answer_and_one_other() -> None:
    drawn = set()
    for index in range(40):
        table = ScriptedTable(says("B"), question_index=str(index))
        await cfmad.play(question(CHOICE), table, CfmadConfig(stances="top2"))
        assert table.seats[0] == "solver" and len(table.calls) == 1 + 2 * 3 + 1
        first, other = table.happened("stances")[0]["stances"]
        assert first == "B"
        drawn.add(other)
    assert drawn == {"A", "C", "E"}


async def test_cfmad_top2_without_a_readable_first_answer_takes_no_stance() -> None:
    table = ScriptedTable(lambda *_: "It is dark.")
    verdict = await cfmad.play(question(CHOICE), table, CfmadConfig(stances="top2"))
    assert isinstance(verdict.answer, Unparsed) and verdict.ended == "no_stances" and table.seats == ["solver", "solver"]


async def test_cfmad_judge_must_choose_an_answer_that_was_argued_for() -> None:
    replies = {("solver", 0): "Answer: A", ("judge", 0): "Answer: Z9", ("judge", 1): "Answer: A"}
    stances: list[str] = []

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if seat == "judge" and number == 0:
            stances.extend(s for s in "ABCE" if f'Case for "{s}. ' in messages[-1].text)
            return f"Answer: {next(s for s in 'ABCE' if s not in stances)}"
        return replies.get((seat, number), "words")

    table = ScriptedTable(script)
    verdict = await cfmad.play(question(CHOICE), table, CfmadConfig(stances="top2"))
    assert table.seats[-2:] == ["judge", "judge"] and verdict.answer == Answer("A")
    assert "Choose exactly one of" in table.calls[-1].messages[-1].text


async def test_cfmad_top2_of_an_open_question_is_the_most_frequent_candidate_and_another() -> None:
    said = {"chain 1": "two", "chain 2": "five", "chain 3": "five", "chain 4": "nine", "chain 5": "five"}
    others = set()
    for index in range(20):
        table = ScriptedTable(lambda seat, *_: f"Answer: {said.get(seat, 'five')}", question_index=str(index))
        await cfmad.play(question(OPEN), table, CfmadConfig(stances="top2"))
        first, other = table.happened("stances")[0]["stances"]
        assert first == "five"
        others.add(other)
    assert others == {"two", "nine"}


async def test_cfmad_finds_candidates_for_open_questions() -> None:
    said = {"chain 1": "three", "chain 2": "Three.", "chain 3": "4", "chain 4": "four dogs", "chain 5": "4"}

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return f"Answer: {said.get(seat, '4')}"

    table = ScriptedTable(script)
    await cfmad.play(question(OPEN), table, CfmadConfig())
    assert len(table.happened("stances")[0]["stances"]) == 3
    table = ScriptedTable(lambda *_: "Answer: 4")
    verdict = await cfmad.play(question(OPEN), table, CfmadConfig())
    assert verdict.ended == "single_candidate" and verdict.answer == Answer("4") and len(table.calls) == 5


# MUG


def voted_out(seat: str) -> dict[str, str]:
    return {f"Agent {n}": seat for n in range(1, 7) if f"Agent {n}" != seat} | {seat: "Agent 1" if seat != "Agent 1" else "Agent 2"}


async def test_mug_found_in_the_first_round() -> None:
    table = ScriptedTable(against(voted_out("Agent 2")), draws={"undercover": lambda names: "Agent 2"})
    verdict = await mug.play(question(), table, MugConfig())
    all_seats = ["Agent 1", "Agent 2", "Agent 3"]
    assert table.seats == [*all_seats, *all_seats, *all_seats, "Agent 1", "Agent 3", "writer"]
    assert [bool(call.schema) for call in table.calls] == [False] * 6 + [True] * 3 + [False] * 3
    assert verdict.ended == "undercover_found" and verdict.answer == Answer("Yes")
    assert verdict.facts == {
        "undercover_found": True,
        "found_round": 1,
        "detection_rounds": 1,
        "normals_lost": 0,
        "abstentions": 0,
        "found_by_chance": pytest.approx(1 / 3, abs=1e-5),
        "undercover_played": True,
        "summary_rounds": 1,
        "agreed": True,
    }
    pictures = {call.seat: set(call.images) for call in table.calls}
    assert pictures["Agent 2"] == {ALTERED.sha256}
    assert pictures["Agent 1"] == pictures["Agent 3"] == pictures["writer"] == {TRUE.sha256}


async def test_mug_observation_has_no_vote_and_every_round_adds_to_the_transcript() -> None:
    table = ScriptedTable(against(voted_out("Agent 3")), draws={"undercover": lambda names: "Agent 3"})
    await mug.play(question(), table, MugConfig(observation_rounds=2))
    phases = [event["phase"] for event in table.happened("statement")]
    assert phases == ["observe"] * 6 + ["reason"] * 3 + ["summary"] * 2
    assert len(table.happened("vote")) == 3
    talk = [call.text for call in table.calls if call.seat == "Agent 1"][:4]
    assert [text.count("[Round") for text in talk] == [0, 1, 2, 3]


async def test_mug_four_agents_go_on_after_losing_a_normal_one() -> None:
    rounds = iter([*[voted_out("Agent 4")] * 4, *[voted_out("Agent 1")] * 3])

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return against(next(rounds) if is_vote(messages) else {})(seat, number, messages)

    table = ScriptedTable(script, draws={"undercover": lambda names: "Agent 1"})
    verdict = await mug.play(question(), table, MugConfig(agents=4))
    assert [event["eliminated"] for event in table.happened("elimination")] == ["Agent 4", "Agent 1"]
    assert verdict.facts["found_round"] == 2 and verdict.facts["normals_lost"] == 1
    later = [call for call in table.calls if "[Round 2]" in call.text and "Round 3 of talk" in call.text]
    assert {call.seat for call in later} == {"Agent 1", "Agent 2", "Agent 3"}
    assert all("Votes. Agent 1: Agent 4; " in call.text and "Agent 4 has left." in call.text for call in later)
    assert all("Agent 4:\n> I see a dog" in call.text for call in later), "what the one who left said stays on the table"


async def test_mug_ends_after_t_max() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return "no ballot" if is_vote(messages) else "Answer: Yes"

    table = ScriptedTable(script)
    verdict = await mug.play(question(), table, MugConfig(detection_rounds=2))
    assert len(table.happened("elimination")) == 2 and verdict.ended == "undercover_survived"


async def test_mug_summary_goes_on_while_they_disagree() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if "Weigh the statements" in messages[-1].text:
            return f"Answer: {'Yes' if seat == 'Agent 1' else 'No'}"
        return against(voted_out("Agent 3"), "No")(seat, number, messages)

    table = ScriptedTable(script, draws={"undercover": lambda names: "Agent 3"})
    verdict = await mug.play(question(), table, MugConfig(summary_rounds=2))
    assert table.seats[-5:] == ["Agent 1", "Agent 2", "Agent 1", "Agent 2", "writer"]
    assert verdict.facts["summary_rounds"] == 2 and verdict.facts["agreed"] is False
    assert "Conclusions." in table.calls[-2].text and "Conclusions." not in table.calls[-4].text


async def test_mug_without_undercover_has_no_votes() -> None:
    table = ScriptedTable(against({}))
    verdict = await mug.play(question(), table, MugConfig(no_undercover=True, observation_rounds=2))
    assert not table.happened("vote") and verdict.ended == "no_undercover"
    assert {image for call in table.calls for image in call.images} == {TRUE.sha256}
    assert table.seats == ["Agent 1", "Agent 2", "Agent 3"] * 3 + ["writer"]


async def test_mug_without_counterfactual_editing_the_undercover_plays_over_the_true_picture() -> None:
    table = ScriptedTable(against(voted_out("Agent 2")), draws={"undercover": lambda names: "Agent 2"})
    verdict = await mug.play(question(), table, MugConfig(no_counterfactual=True))
    assert {image for call in table.calls for image in call.images} == {TRUE.sha256}
    assert verdict.ended == "undercover_found"
    assert "inconspicuous" in next(call.text for call in table.calls if call.seat == "Agent 2")


async def test_mug_question_without_counterfactual_picture_is_played_without_undercover_and_counted() -> None:
    table = ScriptedTable(against({}))
    verdict = await mug.play(question(altered=False), table, MugConfig())
    assert verdict.ended == "no_counterfactual_picture" and verdict.facts["undercover_played"] is False
    assert table.happened("fallback") and not table.happened("vote")


async def test_mug_most_uncertain_agent_is_the_undercover() -> None:
    confidence = {"Agent 1": 90, "Agent 2": 35, "Agent 3": 80}

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if "Confidence" in messages[-1].text:
            return f"Hm.\nConfidence: {confidence[seat]}%\nAnswer: Yes"
        return against(voted_out("Agent 2"))(seat, number, messages)

    table = ScriptedTable(script)
    await mug.play(question(), table, MugConfig(undercover="most_uncertain"))
    assert table.happened("seats")[0]["undercover"] == "Agent 2"
    assert table.seats[:3] == ["Agent 1", "Agent 2", "Agent 3"]
    assert all(call.images == [TRUE.sha256] for call in table.calls[:3])


async def test_mug_adaptive_stop_ends_detection_when_nobody_is_suspected() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if is_vote(messages):
            return ballot(**{f"a{n}": 2 for n in (1, 2, 3) if f"Agent {n}" != seat})
        return "Answer: Yes"

    table = ScriptedTable(script)
    verdict = await mug.play(question(), table, MugConfig(adaptive_stop=3.0))
    assert verdict.ended == "undercover_survived" and table.happened("stop") and not table.happened("elimination")
    table = ScriptedTable(script)
    verdict = await mug.play(question(), table, MugConfig(adaptive_stop=1.5))
    assert table.happened("elimination")


@pytest.mark.parametrize("undercover", ["Agent 1", "Agent 2", "Agent 3"])
async def test_mug_adaptive_stop_looks_at_the_mean_suspicion_of_everybody_alike(undercover: str) -> None:
    """Agent 3 is rated 8 and 2 (mean 5), the others 1: who is the undercover makes no difference, and 8 alone is not 5."""

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if is_vote(messages):
            of_three = {"Agent 1": 8, "Agent 2": 2}
            return ballot(**{f"a{n}": of_three[seat] if n == 3 else 1 for n in (1, 2, 3) if f"Agent {n}" != seat})
        return "Answer: Yes"

    for threshold, stops in ((5.5, True), (4.5, False)):
        table = ScriptedTable(script, draws={"undercover": lambda names: undercover})
        await mug.play(question(), table, MugConfig(adaptive_stop=threshold, detection_rounds=1))
        assert bool(table.happened("stop")) is stops


async def test_mug_gate_plays_only_if_the_chains_disagree() -> None:
    table = ScriptedTable(says("Yes"))
    verdict = await mug.play(question(), table, MugConfig(gate=3))
    assert verdict.ended == "gated" and table.seats == ["chain 1", "chain 2", "chain 3"]

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        return "Answer: No" if seat == "chain 2" else against(voted_out("Agent 3"))(seat, number, messages)

    table = ScriptedTable(script)
    verdict = await mug.play(question(), table, MugConfig(gate=3))
    assert verdict.ended != "gated" and table.happened("vote") and verdict.facts["gate_open"] is True


async def test_mug_gate_stays_open_if_a_chain_cannot_be_read() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if seat == "chain 2":
            return "It is dark."
        return against(voted_out("Agent 3"))(seat, number, messages)

    table = ScriptedTable(script)
    verdict = await mug.play(question(), table, MugConfig(gate=3))
    assert verdict.ended != "gated" and table.happened("seats")


async def test_mug_an_agent_without_an_answer_does_not_agree() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if seat == "Agent 2" and ("Weigh the statements" in messages[1].text):
            return "It is dark."
        return against(voted_out("Agent 3"))(seat, number, messages)

    table = ScriptedTable(script, draws={"undercover": lambda names: "Agent 3"})
    verdict = await mug.play(question(), table, MugConfig(summary_rounds=2))
    assert verdict.facts["agreed"] is False and verdict.facts["summary_rounds"] == 2


async def test_mug_one_agent_left_says_nothing_of_agreement() -> None:
    table = ScriptedTable(against({"Agent 1": "Agent 2", "Agent 3": "Agent 2", "Agent 2": "Agent 1"}))
    table.draws["undercover"] = lambda names: "Agent 1"
    verdict = await mug.play(question(), table, MugConfig())
    assert "agreed" not in verdict.facts and verdict.facts["summary_rounds"] == 1


async def test_mug_an_agent_that_states_no_confidence_is_not_taken_for_unsure() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if "Confidence" in messages[1].text:
            return "Answer: Yes" if seat == "Agent 1" else f"Confidence: {80 if seat == 'Agent 2' else 70}\nAnswer: Yes"
        return against(voted_out("Agent 2"))(seat, number, messages)

    table = ScriptedTable(script)
    await mug.play(question(), table, MugConfig(undercover="most_uncertain"))
    assert table.happened("seats")[0]["undercover"] == "Agent 3"
    assert [event["asked_again"] for event in table.happened("first answer")] == [True, False, False]


async def test_mug_most_uncertain_tie_is_drawn() -> None:
    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if "Confidence" in messages[-1].text:
            return "Confidence: 50\nAnswer: Yes"
        return against(voted_out("Agent 2"))(seat, number, messages)

    drawn = set()
    for index in range(40):
        table = ScriptedTable(script, question_index=str(index))
        await mug.play(question(), table, MugConfig(undercover="most_uncertain"))
        drawn.add(table.happened("seats")[0]["undercover"])
    assert drawn == {"Agent 1", "Agent 2", "Agent 3"}


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ("Confidence: 85", 85),
        ("confidence: 85%", 85),
        ("**Confidence:** 85/100", 85),
        ("Confidence level: about 90", 90),
        ("Confidence: 0.95", 95),
        ("Confidence: 7/10", 70),
        ("Confidence (0-100): 85", 85),
        ("Confidence, from 0 to 100: 85", 85),
        ("My confidence is 60.", 60),
        ("Confidence: 20\nlater\nConfidence: 30", 30),
        ("Confidence: 0", 0),
    ],
)
def test_a_stated_confidence_is_read(text: str, confidence: float) -> None:
    assert read_confidence(f"{text}\nAnswer: Yes") == confidence


@pytest.mark.parametrize("text", ["", "sure", "Confidence: 1000", "Confidence: high", "Confidence: 70 or 80", "Confidence: 101"])
def test_a_confidence_that_is_none_is_not_guessed(text: str) -> None:
    assert isinstance(read_confidence(text), Unparsed)


@pytest.mark.parametrize(
    ("agents", "rounds", "chance"), [(3, 1, 1 / 3), (3, 3, 1 / 3), (4, 1, 1 / 4), (4, 3, 1 / 2), (5, 3, 3 / 5), (6, 3, 1 / 2)]
)
def test_chance_of_finding_the_undercover_by_lots(agents: int, rounds: int, chance: float) -> None:
    assert mug.found_by_chance(agents, rounds) == pytest.approx(chance, abs=1e-5)


# ballots


OTHERS = ["Agent 1", "Agent 3"]


@pytest.mark.parametrize(
    "text",
    [
        ballot(a1=3, a3=7),
        f"```json\n{ballot(a1=3, a3=7)}\n```",
        f"My ballot: {ballot(a1=3, a3=7)} That is all.",
        ballot(a1=3, a3=7).replace("Agent 1", "agent_1").replace("Agent 3", "3"),
        json.dumps({"ratings": json.loads(ballot(a1=3, a3=7)), "why": "x"}),
        ballot(a1=3, a3=7).replace(": 3", ': "3"').replace(": 7", ': "7/10"'),
        f"<think>{ballot(a1=9, a3=9)}</think>{ballot(a1=3, a3=7)}",
        ballot(a1=3, a3=7).replace("suspicion", "Suspicion"),
        json.dumps({"ratings": [{"agent": "Agent 1", **dict.fromkeys(FACTORS, 3)}, {"agent": 3, **dict.fromkeys(FACTORS, 7)}]}),
        ballot(a1=3, a3=7)[:-1] + ', "2nd remark": {"suspicion": 9}}',
    ],
)
def test_ballots_are_read_in_many_shapes(text: str) -> None:
    ratings = read_ratings(text, OTHERS)
    assert ratings == {"Agent 1": dict.fromkeys(FACTORS, 3.0), "Agent 3": dict.fromkeys(FACTORS, 7.0)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Agent 3",
        "{}",
        "[1, 2]",
        ballot(a1=3),
        ballot(a1=3, a3=11),
        ballot(a1=3, a3=-1),
        ballot(a1=3, a3=7).replace('"suspicion": 7', '"suspicion": null'),
        ballot(a1=3, a3=7).replace('"suspicion": 7', '"suspicion": true'),
        ballot(a1=3, a3=7).replace('"suspicion": 7', '"suspicion": NaN'),
        ballot(a1=3, a3=7).replace("suspicion", "mood"),
        ballot(a1=3, a3=7)[:-1] + ', "agent_3": {"suspicion": 9}}',
    ],
)
def test_a_ballot_with_a_gap_is_no_ballot(text: str) -> None:
    assert isinstance(read_ratings(text, OTHERS), Unparsed)


def test_weights_decide_the_vote() -> None:
    ratings = {
        "Agent 1": {"inconsistency": 9.0, "deviation": 0.0, "inaccuracy": 0.0, "suspicion": 0.0},
        "Agent 3": {"inconsistency": 0.0, "deviation": 6.0, "inaccuracy": 6.0, "suspicion": 0.0},
    }
    rng = generator(0)
    assert vote_of(ratings, (1, 1, 1, 1), rng) == "Agent 3"
    assert vote_of(ratings, (1, 0, 0, 0), rng) == "Agent 1"
    assert suspicion(ratings["Agent 3"], (0, 1, 0, 1)) == 3.0


def test_a_schema_asks_for_every_other_agent_and_factor() -> None:
    schema = ratings_schema(OTHERS)
    assert schema["required"] == OTHERS
    assert schema["properties"]["Agent 3"]["required"] == list(FACTORS)
    assert schema["additionalProperties"] is schema["properties"]["Agent 3"]["additionalProperties"] is False


# settings


@pytest.mark.parametrize(
    "settings",
    [
        {"agents": 2},
        {"observation_rounds": -1},
        {"detection_rounds": 0},
        {"summary_rounds": 0},
        {"weights": (0, 0, 0, 0)},
        {"weights": (-1, 1, 1, 1)},
        {"no_counterfactual": True, "no_undercover": True},
        {"adaptive_stop": 0},
        {"gate": 1},
    ],
)
def test_settings_that_make_no_game_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"must|exclude"):
        MugConfig(**settings)  # type: ignore[arg-type]
