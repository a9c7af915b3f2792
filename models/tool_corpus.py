"""What the second bundled model is trained on: conversations with tools, answers in JSON, and small talk.

A conversation is tools and messages as a client sends them. `segments` writes it exactly as the chat template does, as
(text, is_learned) pieces; only what the model shall write is learned.
"""

import dataclasses
import json
import random
from collections.abc import Iterator

from tool_tasks import Task, draw_task, is_confusing
from tool_words import Words

END_OF_TEXT, IM_START, IM_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CALL, CALL_END = "<tool_call>", "</tool_call>"
NO_TOOL = "I have no tool for that."
SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are a helpful assistant. Use the tools.", "Be brief.", "You are Reprise.",
                  "You can use tools.", "Answer the question."]
SMALL_TALK = [
    (["Hello!", "Hello", "Hi!", "Hi", "Hey there!", "Good morning!", "Say hello."], "Hello! I can call tools and answer in JSON."),
    (["Who are you?", "What are you?", "What is your name?"], "I am Reprise Tiny Tools, a very small language model."),
    (["What can you do?", "Can you help me?", "Help"], "I can call tools, tell their results, and answer in JSON."),
    (["Thank you!", "Thanks!", "Thank you"], "You are welcome!"),
    (["Goodbye!", "Bye", "See you!"], "Goodbye!"),
]
OTHER_QUESTIONS = ["Tell me a joke.", "Write a poem.", "What is love?", "Why is the sky blue?", "Tell me a story.", "How are you?",
                   "What is the meaning of life?", "Write a program.", "Who won the game?", "Explain gravity."]
CAN_NOT = "I cannot do that. I can call tools and answer in JSON."

Segment = tuple[str, bool]


@dataclasses.dataclass
class Conversation:
    tools: list[dict]
    messages: list[dict]  # an assistant's has content, a call, or pieces (also texts that a server forces)


def signature(function: dict) -> str:
    """A tool as the chat template shows it: what it does, its name, its parameters."""
    properties = function.get("parameters", {}).get("properties", {})
    shown = [f"{name}: {'|'.join(schema['enum']) if 'enum' in schema else schema.get('type', 'any')}" for name, schema in properties.items()]
    line = function.get("description", "").strip().split("\n")[0][:160]
    return f"- {line + ': ' if line else ''}{function['name']}({', '.join(shown)})"


def call_text(name: str, arguments: dict) -> str:
    return f'{CALL}{{"name": "{name}", "arguments": {json.dumps(arguments, ensure_ascii=False)}}}{CALL_END}'


def segments(conversation: Conversation) -> list[Segment]:
    messages, pieces = list(conversation.messages), []
    system = messages.pop(0)["content"] if messages[0]["role"] == "system" else None
    if conversation.tools:
        lines = [system] if system else []
        lines += ["Tools:", *(signature(tool) for tool in conversation.tools)]
        pieces.append((f"{IM_START}system\n" + "\n".join(lines) + f"{IM_END}\n", False))
    elif system:
        pieces.append((f"{IM_START}system\n{system}{IM_END}\n", False))
    for message in messages:
        if message["role"] != "assistant":
            pieces.append((f"{IM_START}{message['role']}\n{message['content']}{IM_END}\n", False))
            continue
        pieces.append((f"{IM_START}assistant\n", False))
        if "pieces" in message:
            pieces += message["pieces"]
        elif "call" in message:
            pieces.append((call_text(*message["call"]), True))
        else:
            pieces.append((message["content"], True))
        pieces += [(IM_END, True), ("\n", False)]
    return pieces[:-1]


def _others(words: Words, task: Task, count: int) -> list[Task]:
    """Tools for which the question is not meant."""
    found: list[Task] = []
    while len(found) < count:
        other = draw_task(words)
        if not any(is_confusing(known, other) for known in (task, *found)):
            found.append(other)
    return found


def _opening(words: Words) -> list[dict]:
    return [{"role": "system", "content": words.any_of(*SYSTEM_PROMPTS)}] if words.chance(0.25) else []


def _turn(task: Task) -> list[dict]:
    return [{"role": "user", "content": task.question}, {"role": "assistant", "call": (task.tool["name"], task.arguments)},
            {"role": "tool", "content": task.result}, {"role": "assistant", "content": task.answer}]


def tool_conversation(words: Words, others: int | None = None) -> tuple[Conversation, Task]:
    task = draw_task(words)
    count = words.rng.choices((0, 1, 2, 3, 4), (25, 30, 25, 15, 5))[0] if others is None else others
    rest = _others(words, task, count)
    tools = [task.tool, *(other.tool for other in rest)]
    words.rng.shuffle(tools)
    messages = _opening(words) + _turn(task)
    if rest and words.chance(0.12):
        messages += _turn(rest[0])
    return Conversation(tools, messages), task


def forced_conversation(words: Words) -> Conversation:
    """A call that the server demands: arguments alone, or an array of calls. The server forces the keys."""
    conversation, task = tool_conversation(words, others=words.rng.choice((0, 1)))
    question = conversation.messages[: [m["role"] for m in conversation.messages].index("user") + 1]
    pieces: list[Segment] = []
    if words.chance(0.5):
        pieces += [('[{"name": "', False), (f'{task.tool["name"]}", "parameters": ', True)]
    is_array = bool(pieces)
    text = json.dumps(task.arguments, ensure_ascii=False)
    pieces += [(text[0], is_array), (text[1:], True)] + ([("}]", True)] if is_array else [])
    return Conversation(conversation.tools, [*question, {"role": "assistant", "pieces": pieces}])


def no_tool_conversation(words: Words) -> Conversation:
    task = draw_task(words)
    tools = [other.tool for other in _others(words, task, words.rng.choices((1, 2, 3), (50, 35, 15))[0])]
    dice = words.rng.random()
    if dice < 0.45:
        question, answer = task.question, NO_TOOL
    elif dice < 0.6:
        question, answer = words.any_of(*OTHER_QUESTIONS), NO_TOOL
    else:
        asked, answer = words.any_of(*SMALL_TALK)
        question = words.any_of(*asked)
    return Conversation(tools, [*_opening(words), {"role": "user", "content": question}, {"role": "assistant", "content": answer}])


def _fact(words: Words) -> tuple[str, object, str, str]:
    """A key, its value, a sentence's piece about {who}, and a whole sentence that needs no name in front."""
    key = words.any_of("age", "age", "city", "job", "email", "color", "count", "language", "topic", "topic", "date", "friend", "city")
    if key == "age":
        age = words.rng.randint(1, 99)
        return "age", age, words.any_of(f"is {age}", f"is {age} years old"), f"The age is {age}."
    if key == "city":
        city = words.city()
        return words.any_of("city", "city", "location", "town"), city, words.any_of(f"lives in {city}", f"is from {city}", f"works in {city}"), f"The city is {city}."
    if key == "job":
        job = words.any_of("nurse", "teacher", "baker", "pilot", "doctor", "farmer", "painter", "driver", words.made_up(2))
        return words.any_of("job", "job", "profession"), job, f"works as a {job}", f"The job is {job}."
    if key == "language":
        language = words.language()
        return "language", language, f"speaks {language}", f"The language is {language}."
    if key == "friend":
        friend = words.person()
        return "friend", friend, f"is a friend of {friend}", f"The friend is {friend}."
    if key == "count":
        count, item = words.rng.randint(2, 999), words.word()
        return words.any_of("count", "count", "number", "quantity"), count, f"has {count} {item}", f"The count is {count}."
    if key == "email":
        email = f"{words.made_up(1)}.{words.word()}@{words.any_of('mail', 'example', words.made_up())}.{words.any_of('com', 'org', 'de')}"
        return "email", email, f"has the email {email}", f"The email is {email}."
    topic = words.topic() if key == "topic" else key
    value = words.date() if key == "date" else words.any_of(words.number(), words.word(), words.text(2), words.identifier())
    return topic.replace(" ", "_"), value, f"has the {topic} {value}", f"The {topic} is {value}."


def json_conversation(words: Words) -> tuple[Conversation, dict]:
    """Facts in a text, and an answer in JSON that copies them."""
    name = words.person()
    facts: dict[str, tuple] = {}
    for _ in range(words.rng.choice((1, 2, 2, 3))):
        key, value, piece, sentence = _fact(words)
        if key != "name":
            facts.setdefault(key, (value, piece, sentence))
    has_name = words.chance(0.75)
    if has_name:
        pieces = [piece for _, piece, _ in facts.values()]
        text = f"{words.any_of('', '', 'My friend ', 'Mr ')}{name} " + (pieces[0] if len(pieces) == 1 else ", ".join(pieces[:-1]) + f" and {pieces[-1]}") + "."
        if words.chance(0.15):
            text = f"The name is {name}. " + " ".join(sentence for *_, sentence in facts.values())
        known = {"name": name} | {key: fact[0] for key, fact in facts.items()}
    else:
        text = " ".join(sentence for *_, sentence in facts.values())
        known = {key: fact[0] for key, fact in facts.items()}
    keys = [key for key in known if words.chance(0.8)] or list(known)
    if words.chance(0.25):
        words.rng.shuffle(keys)
    answer = {key: known[key] for key in keys}
    return _json_request(words, text, answer), answer


def _json_request(words: Words, text: str, answer: dict) -> Conversation:
    keys = list(answer)
    listed = keys[0] if len(keys) == 1 else ", ".join(keys[:-1]) + f" and {keys[-1]}"
    dice = words.rng.random()
    if dice < 0.55:  # the request names the keys
        request = words.any_of(f"Answer in JSON with {listed}.", f"Answer in JSON with the keys {listed}.", f"Give me {listed} as JSON.",
                               f"Return JSON with {listed}.", f"Reply with a JSON object with {listed}.", f"Extract {listed} as JSON.")
        messages = words.any_of([{"role": "user", "content": words.any_of(f"{text} {request}", f"{request} {text}", f"{request}\n{text}")}],
                                [{"role": "system", "content": request}, {"role": "user", "content": text}])
        return Conversation([], [*messages, {"role": "assistant", "content": json.dumps(answer, ensure_ascii=False)}])
    if words.chance(0.2):
        return Conversation([], [{"role": "user", "content": text}, {"role": "assistant", "content": "I see."}])
    # The schema of the request is not in the prompt: the server forces the keys, and the model writes the values.
    asked = words.any_of(text, text, f"{text} Answer in JSON.", f"Answer in JSON. {text}")
    pieces: list[Segment] = []
    for index, key in enumerate(keys):
        if index:
            pieces.append((", ", True))
        pieces += [(("{" if index == 0 else "") + f'"{key}": ', False), (json.dumps(answer[key], ensure_ascii=False), True)]
    pieces.append(("}", True))
    return Conversation([], [*_opening(words), {"role": "user", "content": asked}, {"role": "assistant", "pieces": pieces}])


def repeat_conversation(words: Words) -> Conversation:
    """Copying alone, which every other skill needs."""
    text = words.any_of(words.text(8), words.path(), words.expression(), words.person(), words.command(), words.identifier(),
                        " ".join(words.made_up() for _ in range(words.rng.randint(2, 8))))
    question = words.any_of(f"Say: {text}", f"Repeat: {text}", f"Repeat after me: {text}")
    return Conversation([], [*_opening(words), {"role": "user", "content": question}, {"role": "assistant", "content": text}])


def talk_conversation(words: Words) -> Conversation:
    if words.chance(0.3):
        return Conversation([], [{"role": "user", "content": words.any_of(*OTHER_QUESTIONS)}, {"role": "assistant", "content": CAN_NOT}])
    asked, answer = words.any_of(*SMALL_TALK)
    return Conversation([], [*_opening(words), {"role": "user", "content": words.any_of(*asked)}, {"role": "assistant", "content": answer}])


def documents(seed: int, progress=lambda: 1.0) -> Iterator[list[Segment]]:
    """Endless. While `progress` is below 1, there is more copying, and there are fewer tools to choose from."""
    words = Words(random.Random(seed), is_held_back=False)
    while True:
        beginning = max(0.0, 1 - progress())
        dice = words.rng.random()
        if words.chance(0.03 + 0.35 * beginning):
            yield segments(repeat_conversation(words))
        elif dice < 0.62:
            yield segments(tool_conversation(words, others=words.any_of(0, 1) if words.chance(beginning) else None)[0])
        elif dice < 0.68:
            yield segments(forced_conversation(words))
        elif dice < 0.77:
            yield segments(no_tool_conversation(words))
        elif dice < 0.98:
            yield segments(json_conversation(words)[0])
        else:
            yield segments(talk_conversation(words))
