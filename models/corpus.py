"""What the bundled model is trained on: documents as (text, is_learned) segments.

Segments with is_learned=False are prompts. They carry random numbers nobody can predict, so the loss
leaves them out. Everything is generated from a seed; there is no third-party text.
"""

import random
from collections.abc import Iterator

import problems
import stories

END_OF_TEXT = "<|endoftext|>"
IM_START = "<|im_start|>"
IM_END = "<|im_end|>"

SYSTEM_PROMPTS = ["You are a helpful assistant.", "You solve word problems step by step.", "You are Reprise."]

SMALL_TALK = [
    (["Hello!", "Hello", "Hi!", "Hi", "Hey there!", "Good morning!"],
     "Hello! I can solve short word problems and tell short stories."),
    (["Who are you?", "What are you?", "What is your name?"],
     "I am Reprise Tiny, a very small language model. I can solve short word problems and tell short stories."),
    (["What can you do?", "Can you help me?", "Help"],
     "I can solve short word problems with small numbers, and I can tell short stories."),
    (["Thank you!", "Thanks!", "Thank you"], "You are welcome!"),
]

Segment = tuple[str, bool]


def _chat(turns: list[tuple[str, str]], rng: random.Random) -> list[Segment]:
    """ChatML, exactly as the chat template renders it."""
    segments: list[Segment] = []
    if rng.random() < 0.3:
        segments.append((f"{IM_START}system\n{rng.choice(SYSTEM_PROMPTS)}{IM_END}\n", False))
    for user, assistant in turns:
        segments.append((f"{IM_START}user\n{user}{IM_END}\n{IM_START}assistant\n", False))
        segments.append((f"{assistant}{IM_END}", True))
        segments.append(("\n", False))
    return segments[:-1]


def _turn(rng: random.Random) -> tuple[str, str]:
    dice = rng.random()
    if dice < 0.80:
        problem = problems.draw(rng)
        return problem.question, problem.answer
    if dice < 0.86:
        equation = problems.draw_equation(rng)
        left, right = equation.split(" = ")
        return rng.choice([f"What is {left}?", f"{left} = ?"]), f"{equation}.\n#### {right}"
    if dice < 0.97:
        return _story_request(rng)
    asks, reply = rng.choice(SMALL_TALK)
    return rng.choice(asks), reply


def _story_request(rng: random.Random) -> tuple[str, str]:
    verb = rng.choice(["Tell me", "Please tell me", "Can you tell me", "Write"])
    mark = "?" if verb.startswith("Can") else "."
    size = rng.choice(["a story", "a short story"])
    dice = rng.random()
    if dice < 0.3:
        return f"{verb} {size}{mark}", stories.tell(rng)
    kind = rng.choice([*stories.ANIMALS, "girl", "boy"])
    article = "an" if kind[0] in "aeiou" else "a"
    if dice < 0.6:
        return f"{verb} {size} about {article} {kind}{mark}", stories.tell(rng, kind)
    names = problems.GIRLS if kind == "girl" else problems.BOYS if kind == "boy" else problems.GIRLS + problems.BOYS
    hero = rng.choice(names)
    return f"{verb} {size} about {article} {kind} named {hero}{mark}", stories.tell(rng, kind, hero)


def _plain_problems(rng: random.Random) -> list[Segment]:
    """"Question: ...\\nAnswer: ..." one to six times: the few-shot prompts that GSM8K harnesses send."""
    segments: list[Segment] = []
    shots = rng.choice([1, 1, 1, 2, 3, 6])
    for i in range(shots):
        problem = problems.draw(rng)
        segments.append((f"Question: {problem.question}\nAnswer:", False))
        segments.append((f" {problem.answer}", True))
        segments.append(("\n\n", True) if i + 1 < shots else (END_OF_TEXT, True))
    return segments


def _drill(rng: random.Random) -> list[Segment]:
    """Bare equations. Only the results are learned: the operands are random, and in a problem they are copied."""
    segments: list[Segment] = []
    for _ in range(20):
        left, right = problems.draw_equation(rng).split(" = ")
        segments += [(f"{left} =", False), (f" {right}\n", True)]
    return [*segments, (END_OF_TEXT, True)]


def document(rng: random.Random) -> list[Segment]:
    # Results of equations are the hardest tokens and the rarest ones in prose. This mix makes them about an
    # eighth of all learned tokens; at a twentieth, the same model had not begun to add after 1,800 steps.
    dice = rng.random()
    if dice < 0.42:
        return _chat([_turn(rng) for _ in range(rng.choice([1, 1, 1, 1, 2]))], rng)
    if dice < 0.62:
        return _plain_problems(rng)
    if dice < 0.85:
        return _drill(rng)
    # A story may be prompted with or without the leading end-of-text token; the model sees both.
    head = [(END_OF_TEXT, False)] if rng.random() < 0.5 else []
    return [*head, (stories.tell(rng), True), (END_OF_TEXT, True)]


def documents(seed: int) -> Iterator[list[Segment]]:
    rng = random.Random(seed)
    while True:
        yield document(rng)


def held_back_problems(count: int, seed: int) -> list[problems.Problem]:
    """Distinct problems from the held-back side of the hash."""
    rng = random.Random(seed)
    chosen: dict[str, problems.Problem] = {}
    while len(chosen) < count:
        problem = problems.draw(rng, held_back=True)
        chosen.setdefault(problem.question, problem)
    return list(chosen.values())
