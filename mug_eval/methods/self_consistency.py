"""``sc<k>``: self-consistency, k sampled chains and the plurality of their answers (Wang et al. 2023).

With k at MUG's number of calls it is the compute-matched control: the same spending without any protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mug_eval.answers import plurality
from mug_eval.chat import Sampling
from mug_eval.methods.chain_of_thought import chain_prompt
from mug_eval.methods.conversation import Heard, ask_answer, record_heard, together
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Question


@dataclass(frozen=True, slots=True)
class SelfConsistencyConfig:
    """Settings of self-consistency.

    Attributes:
        k: number of chains.
        temperature: softmax temperature of the chains. Their own, since identical greedy chains would vote as one (Wang et al. 2023,
            section 3.1, samples at 0.7); top-p and top-k are left open for the same reason.
    """

    k: int = 5
    temperature: float = 0.7

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError("k must be at least 1")
        if not 0 <= self.temperature <= 2:
            raise ValueError("temperature must lie in 0..2")


def diverse(sampling: Sampling, temperature: float) -> Sampling:
    """The run's settings with room for different draws."""
    return replace(sampling, temperature=temperature, top_p=None, top_k=None)


async def sample_chains(question: Question, table: Table, k: int, temperature: float) -> list[Heard]:
    """K chains over the same prompt, asked at once, each with its own seed."""
    sampling = diverse(table.sampling, temperature)
    prompt = chain_prompt(question)
    return await together([ask_answer(table, f"chain {i + 1}", prompt, question.answer_format, sampling) for i in range(k)])


async def play(question: Question, table: Table, config: SelfConsistencyConfig) -> Verdict:
    """Sample the chains and vote; a chain without an answer abstains, ties are drawn among the tied."""
    chains = await sample_chains(question, table, config.k, config.temperature)
    for i, heard in enumerate(chains):
        record_heard(table, "answer", f"chain {i + 1}", heard)
    answer, votes = plurality([heard.answer for heard in chains], question.answer_format, table.random("plurality"))
    table.record("count", votes=votes)
    return Verdict(answer, ended="voted", facts={"agreement": max(votes.values(), default=0) / config.k})


METHOD = Method(
    "sc",
    "self-consistency: the plurality of k sampled chains (sc5, sc12, ...)",
    SelfConsistencyConfig,
    play,
    lambda question, config: CallRange(config.k, config.k),
)
