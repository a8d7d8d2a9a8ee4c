"""The words of MUG, our own. Validity rule 1: nothing here that others are shown names or hints at a role.

``RULES`` and the transcript are the same for everybody; ``COMMON`` and ``ODD`` go only into the own prompt.
"""

RULES = (
    "{count} agents, Agent 1 to Agent {count}, discuss the question above. Each was handed the picture, but one of them may have "
    "been handed a version of it in which some detail differs; nobody is told who. They talk in rounds. After a round of talk they may "
    "vote, and whoever gets the most votes leaves. At the end the question is answered over the original picture."
)

COMMON = (
    "You are {seat}. You hold the original picture. Be accurate, and help to find out whether somebody's picture differs: state concrete "
    "details that others can check (what, how many, which colour, where), ask about details that would tell, and name what in the "
    "others' statements does not fit what you see."
)
ODD = (
    "You are {seat}. Your picture may be the one that differs; you are not told in what. Reason faithfully from your own picture, and "
    "stay inconspicuous: be plausible and concrete, fit in with the talk, draw no suspicion, and do not mention that your picture may "
    "differ."
)

TALK = (
    "Round {round} of talk. Describe what in your picture matters for the question, respond to what was said, and say which answer it "
    "supports. Write only your own words, in at most 100 of them."
)
VOTE = (
    "Now vote. Rate each of {others} from 0 (not at all) to 10 (very much) on four factors: inconsistency (what they state does not fit "
    "your picture), deviation (they stand apart from what the others agree on), inaccuracy (their specific visual details are wrong), "
    "suspicion (they are vague or evasive). Reply with one JSON object of this form and nothing else: {example}"
)
VOTE_REMINDER = (
    "That was no complete ballot. Reply with one JSON object of this form, each n a number from 0 to 10, and nothing else: "
    "{example}"
)

ALONE = (
    "Say which details of the picture matter, reason from them and answer, in at most 100 words. On a line before the answer, write "
    '"Confidence: " and how sure you are, from 0 to 100.'
)

DISCUSSED = "{count} agents discussed the question above. What those said who were not voted out:\n\n{said}"
SUMMARISE = (
    "You are {seat}. Weigh the statements against the picture that you see now, keep what the picture confirms, and answer the question "
    "with a short reason, in at most 100 words."
)
FINAL = "Weigh the conclusions above against the picture and write the final answer to the question, in at most 60 words."
