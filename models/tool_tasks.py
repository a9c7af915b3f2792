"""Tasks for tools: a tool, a question that needs it, the call, a result, and the answer that the result leads to.

One function per kind of tool. Names, descriptions, parameters and wordings vary; values are copied from the question.
"""

import dataclasses
import json
import re

from tool_words import Words


@dataclasses.dataclass
class Task:
    kind: str
    tool: dict  # the function: name, description, parameters
    question: str
    arguments: dict
    result: str
    answer: str


def _styled(words: Words, *parts: str) -> str:
    """A name in one of the usual styles: get_air_quality, getAirQuality, get-air-quality, GetAirQuality."""
    pieces = " ".join(parts).split()
    style = words.rng.choices(("snake", "camel", "kebab", "pascal"), (70, 14, 10, 6))[0]
    if style == "camel":
        return pieces[0] + "".join(piece.capitalize() for piece in pieces[1:])
    if style == "pascal":
        return "".join(piece.capitalize() for piece in pieces)
    return ("_" if style == "snake" else "-").join(pieces)


def _tool(words: Words, name: str, description: str, slots: dict[str, dict], optional: dict[str, dict] | None = None) -> dict:
    properties = {slot: dict(schema) for slot, schema in slots.items()} | (optional or {})
    for slot, schema in properties.items():
        if words.chance(0.2):
            schema["description"] = f"The {slot.replace('_', ' ')}."
    parameters = {"type": "object", "properties": properties}
    if slots:
        parameters["required"] = list(slots)
    tool = {"name": name, "description": description + words.any_of("", "."), "parameters": parameters}
    if words.chance(0.05):
        del tool["description"]
    return tool


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))


def _numeric(value: float) -> dict:
    return INTEGER if isinstance(value, int) else NUMBER


def _please(words: Words, text: str) -> str:
    """An order as people write it, with its end."""
    order = words.any_of("{}", "{}", "{}", "Please {}", "Can you {}", "Could you {}", "I want you to {}")
    if order != "{}":
        text = text[0].lower() + text[1:]
    end = "?" if order.startswith(("Can", "Could")) else words.any_of(".", ".", "", "!", ", please." if "lease" not in order else ".")
    return order.format(text) + end


def _facts(words: Words) -> tuple[str, str]:
    """A result and how an answer says it."""
    dice = words.rng.random()
    if dice < 0.25:
        value = f"{words.number()} {words.any_of(words.unit(), words.word())}"
    elif dice < 0.45:
        value = words.text(4)
    elif dice < 0.6:
        value = f"{words.number()} {words.any_of('degrees', 'percent', words.unit())} and {words.word()}"
    elif dice < 0.75:
        value = str(words.any_of(words.number(), words.person(), words.city(), words.date()))
    else:
        names = words.rng.sample(["temperature", "value", "status", "result", "name", "state", "amount", "unit", words.word(), words.word()],
                                 words.rng.choice((1, 2, 2)))
        members = {name: words.any_of(words.number(), words.word(), words.city(), words.text(2)) for name in names}
        return json.dumps(members), " and ".join(f"{name} {value}" for name, value in members.items())
    return (json.dumps({"result": value}) if words.chance(0.1) else value), value


def _lookup(words: Words, slot: str, value: object, schema: dict, nouns: str, links: tuple[str, ...]) -> Task:
    topic = words.topic()
    verb = words.any_of("get", "get", "find", "check", "look up", "show", "fetch", "read", "query", "")
    extra = words.any_of("", "", "", "current", "info")
    name = _styled(words, verb, *(("current", topic) if extra == "current" else (topic, extra)))
    noun = words.any_of(*nouns.split("|"))
    description = words.any_of(
        f"Get the {topic} of a {noun}", f"Get the {topic} for a {noun}", f"Returns the current {topic} of the given {noun}",
        f"Look up the {topic} of a {noun}", f"Find the {topic}", f"The {topic} of a {noun}", f"{topic.capitalize()} by {noun}",
        f"Tells the {topic} in a {noun}", f"Get {topic}")
    link = words.any_of(*links)
    asked = f"{topic} {link} {value}"
    question = words.any_of(
        f"What is the {asked}?", f"What is the {asked}?", f"What's the {asked}?", f"How is the {asked}?", f"Tell me the {asked}.",
        f"Show me the {asked}.", f"I need the {asked}.", f"What is the current {asked}?", f"Can you check the {asked}?",
        f"Get the {asked}.", f"Find the {asked}, please.", f"{asked.capitalize()}?" if False else f"Do you know the {asked}?",
        f"Please look up the {asked}.", f"{topic} {link} {value}", f"What is the {asked} now?", f"What will the {asked} be?")
    slots, optional, arguments = {slot: schema}, {}, {slot: value}
    if words.chance(0.3):
        name_of_unit = words.any_of("unit", "units", "format", "scale")
        choices = [words.unit() for _ in range(2)] if words.chance(0.5) else ["celsius", "fahrenheit"]
        optional[name_of_unit] = {"type": "string", "enum": choices} if words.chance(0.7) else dict(STRING)
        if words.chance(0.5):
            unit = words.any_of(*choices)
            arguments[name_of_unit] = unit
            question = question.rstrip("?.") + f" in {unit}" + ("?" if question.endswith("?") else "")
    elif words.chance(0.12):
        days = words.rng.randint(1, 30)
        optional["days"] = dict(INTEGER)
        if words.chance(0.6):
            arguments["days"] = days
            question = question.rstrip("?.") + f" for {days} days" + ("?" if question.endswith("?") else "")
    result, said = _facts(words)
    return Task("lookup", _tool(words, name, description, slots, optional), question, arguments, result, f"The {asked} is {said}.")


def lookup_place(words: Words) -> Task:
    slot = words.any_of("city", "city", "location", "location", "place", "town", "address", "region", words.word())
    noun = slot if words.chance(0.5) else "city|place|town|location"
    return _lookup(words, slot, words.city(), STRING, noun, ("in", "in", "for", "of", "at"))


def lookup_person(words: Words) -> Task:
    slot = words.any_of("name", "person", "user", "customer", "employee", "contact", words.word())
    return _lookup(words, slot, words.person(), STRING, "person|user|customer|contact", ("of", "of", "for"))


def lookup_thing(words: Words) -> Task:
    slot = words.any_of("item", "product", "name", "symbol", "title", "object", words.word())
    return _lookup(words, slot, words.any_of(words.word(), words.text(2), words.made_up(), words.made_up().upper()), STRING,
                   "product|item|thing", ("of", "of", "for"))


def lookup_number(words: Words) -> Task:
    slot = words.any_of("id", "order_id", "user_id", "number", "code", words.word() + "_id")
    if words.chance(0.5):
        return _lookup(words, slot, words.rng.randint(1, 99999), INTEGER, "number|id", ("of", "of order", "for user", "of number"))
    return _lookup(words, slot, words.identifier(), STRING, "number|id", ("of", "of order", "for"))


def search(words: Words) -> Task:
    topic = words.any_of("web", "web", "news", "internet", "documents", words.topic(), words.topic())
    name = words.any_of(_styled(words, "search", topic), _styled(words, topic, "search"), _styled(words, "find", topic),
                        "search", _styled(words, "search"))
    slot = words.any_of("query", "query", "q", "text", "keywords", "search_term", words.word())
    text = words.any_of(words.text(4), words.topic(), words.person())
    shown = words.any_of(text, text, f'"{text}"')
    question = words.any_of(
        f"Search the {topic} for {shown}", f"Search for {shown}", f"Search {topic} for {shown}", f"Look for {shown} in the {topic}",
        f"Find {topic} about {shown}", f"Look up {shown} in the {topic}", f"Google {shown}" if topic in ("web", "internet") else
        f"Search the {topic} for {shown}")
    optional, arguments = {}, {slot: text}
    if words.chance(0.25):
        limit = words.any_of("limit", "max_results", "count", "top_k")
        optional[limit] = dict(INTEGER)
        if words.chance(0.5):
            arguments[limit] = words.rng.randint(1, 50)
            question += f", {words.any_of('at most', 'only', 'the first')} {arguments[limit]} results"
    result, said = _facts(words)
    description = words.any_of(f"Search the {topic}", f"Search the {topic} for a text", f"Find {topic} by a query",
                               f"Searches {topic} and returns results")
    return Task("search", _tool(words, name, description, {slot: STRING}, optional), _please(words, question), arguments, result,
                f"I found this: {said}.")


def read_file(words: Words) -> Task:
    name = _styled(words, words.any_of("read", "read", "open", "show", "load", "get", "cat"), words.any_of("file", "file", "document", "text file"))
    slot = words.any_of("path", "path", "file", "file_path", "filename", "name")
    path = words.path()
    question = words.any_of(
        f"What is in {path}?", f"What is in the file {path}?", f"What does {path} say?", f"What does the file {path} contain?",
        f"Who is in {path}?", _please(words, f"Read {path}"), _please(words, f"Read the file {path}"),
        _please(words, f"Open {path}"), _please(words, f"Show me the file {path}"), _please(words, f"Show me {path}"))
    description = words.any_of("Read a file", "Read the contents of a file", "Returns the text of a file", "Open a file and read it",
                               "Read a text file from disk")
    text = " ".join(words.text(4) for _ in range(words.rng.choice((1, 1, 2))))
    text = text[0].upper() + text[1:] + words.any_of("", ".")
    return Task("file", _tool(words, name, description, {slot: STRING}), question, {slot: path}, text,
                f"{path} says: {text}")


def calculate(words: Words) -> Task:
    expression = words.expression()
    name = _styled(words, words.any_of("calculator", "calculate", "calculator", "evaluate", "compute", "math", "calc"),
                   words.any_of("", "", "", "expression"))
    slot = words.any_of("expression", "expression", "formula", "input", "calculation")
    question = words.any_of(f"What is {expression}?", f"What is {expression}?", f"How much is {expression}?", f"{expression} = ?",
                            _please(words, f"Calculate {expression}"), _please(words, f"Compute {expression}"))
    description = words.any_of("Evaluate an arithmetic expression", "Calculate the value of an expression", "A calculator",
                               "Does arithmetic", "Compute a mathematical expression")
    result = str(words.number())
    return Task("calculator", _tool(words, name, description, {slot: STRING}), question, {slot: expression}, result,
                f"{expression} = {result}.")


def calculate_pair(words: Words) -> Task:
    verb, link, noun = words.any_of(("add", "and", "sum"), ("multiply", "by", "product"), ("divide", "by", "quotient"),
                                    ("subtract", "from", "difference"), ("add", "to", "sum"))
    first, second = words.any_of(("a", "b"), ("x", "y"), ("first", "second"), ("left", "right"), ("number1", "number2"))
    a, b = words.number(), words.number()
    schema = words.any_of(NUMBER, INTEGER) if isinstance(a, int) and isinstance(b, int) else NUMBER
    name = _styled(words, verb, words.any_of("", "", "numbers", "two numbers"))
    result = str(words.number())
    return Task("calculator", _tool(words, name, f"{verb.capitalize()} {words.any_of('two numbers', 'numbers')}", {first: schema, second: schema}),
                _please(words, f"{verb.capitalize()} {a} {link} {b}"), {first: a, second: b}, result, f"The {noun} is {result}.")


def convert(words: Words) -> Task:
    value, source, target = words.number(), words.unit(), words.unit()
    slots = words.any_of(("value", "from", "to"), ("amount", "from_unit", "to_unit"), ("value", "source", "target"),
                         ("number", "unit", "target_unit"), ("amount", "from_currency", "to_currency"))
    question = words.any_of(_please(words, f"Convert {value} {source} to {target}"), f"What is {value} {source} in {target}?",
                            f"What are {value} {source} in {target}?", f"How much is {value} {source} in {target}?")
    name = _styled(words, "convert", words.any_of("units", "unit", "", "value", "currency", "length"))
    result = f"{words.number()} {target}"
    description = words.any_of("Convert a value between units", "Convert units", "Converts a number from one unit to another", "Unit conversion")
    return Task("convert", _tool(words, name, description, {slots[0]: words.any_of(NUMBER, _numeric(value)), slots[1]: STRING, slots[2]: STRING}),
                question, {slots[0]: value, slots[1]: source, slots[2]: target}, result, f"{value} {source} are {result}.")


def translate(words: Words) -> Task:
    text, language = words.text(4), words.language()
    shown = words.any_of(text, f'"{text}"')
    slots = words.any_of(("text", "language"), ("text", "target_language"), ("sentence", "to"), ("phrase", "lang"))
    question = words.any_of(_please(words, f"Translate {shown} into {language}"), _please(words, f"Translate {shown} to {language}"),
                            f"How do you say {shown} in {language}?", f"What is {shown} in {language}?")
    result = " ".join(words.made_up() for _ in range(words.rng.choice((1, 2, 3))))
    return Task("translate", _tool(words, _styled(words, "translate", words.any_of("", "text")),
                                   words.any_of("Translate a text", "Translate a text into a language", "Translator"), {slots[0]: STRING, slots[1]: STRING}),
                question, {slots[0]: text, slots[1]: language}, result, f"In {language}: {result}")


def add_event(words: Words) -> Task:
    title, date, clock = words.text(3), words.date(), words.clock()
    slots = words.any_of(("title", "date", "time"), ("name", "day", "start"), ("event", "date", "start_time"), ("title", "when", "time"))
    noun = words.any_of("event", "meeting", "appointment", "calendar event", "reminder")
    name = _styled(words, words.any_of("create", "add", "new", "schedule"), noun)
    arguments = {slots[0]: title, slots[1]: date}
    day = date if date in ("tomorrow", "today") else f"on {date}"
    question = words.any_of(f"{words.any_of('Create', 'Add', 'Schedule')} {words.any_of('an', 'the', 'a')} {noun} {title} {day}",
                            f"Add {title} to my calendar {day}", f"Schedule {title} {day}", f'Add the {noun} "{title}" {day}')
    properties = {slots[0]: STRING, slots[1]: STRING}
    optional = {}
    if words.chance(0.6):
        optional[slots[2]] = dict(STRING)
        if words.chance(0.7):
            arguments[slots[2]] = clock
            question += f" at {clock}"
    result, said = words.any_of(("ok", "ok"), ("done", "done"), _facts(words))
    return Task("event", _tool(words, name, words.any_of(f"Create a {noun}", f"Add a {noun} to the calendar", f"Schedules a {noun}"), properties, optional),
                _please(words, question), arguments, result, f"Done: {said}.")


def send(words: Words) -> Task:
    person, text = words.person(), words.text(5)
    noun = words.any_of("message", "email", "mail", "text message", "note", "letter")
    slots = words.any_of(("recipient", "message"), ("to", "text"), ("to", "body"), ("name", "content"), ("recipient", "body"))
    question = words.any_of(f"Send {person} {words.any_of('a', 'the')} {noun}: {text}", f"Send a {noun} to {person}: {text}",
                            f"Write a {noun} to {person} that says {text}", f"Send {person} the {noun} \"{text}\"", f"Tell {person} by {noun}: {text}")
    result, said = words.any_of(("sent", "sent"), ("ok", "ok"), _facts(words))
    return Task("send", _tool(words, _styled(words, words.any_of("send", "send", "write"), noun), words.any_of(f"Send a {noun}", f"Send a {noun} to a person"),
                              {slots[0]: STRING, slots[1]: STRING}), _please(words, question), {slots[0]: person, slots[1]: text}, result, f"Done: {said}.")


def switch(words: Words) -> Task:
    device = words.device()
    result, said = words.any_of(("ok", "ok"), ("done", "done"), _facts(words))
    slot = words.any_of("device", "device", "name", "appliance")
    if words.chance(0.5):
        state = words.any_of("on", "off")
        choice = words.any_of("state", "power", "status")
        question = words.any_of(f"Turn {state} the {device}", f"Turn the {device} {state}", f"Switch {state} the {device}", f"Switch the {device} {state}")
        if words.chance(0.25):
            schema, value = BOOLEAN, state == "on"
            choice = words.any_of("on", "enabled", "is_on")
        else:
            schema, value = words.any_of(({"type": "string", "enum": ["on", "off"]}, state), (STRING, state))
        tool = _tool(words, _styled(words, words.any_of("turn", "switch", "control", "set"), words.any_of("device", "appliance", "power")),
                     words.any_of("Turn a device on or off", "Switch a device on or off", "Control a device"), {slot: STRING, choice: schema})
        return Task("switch", tool, _please(words, question), {slot: device, choice: value}, result, f"Done: {said}.")
    number = words.rng.randint(1, 100)
    level = words.any_of("value", "level", "target", "percent")
    tool = _tool(words, _styled(words, "set", words.any_of("device", "level", "value")), words.any_of("Set a device to a value", "Set the level of a device"),
                 {slot: STRING, level: words.any_of(INTEGER, NUMBER)})
    return Task("switch", tool, _please(words, f"Set the {device} to {number}"), {slot: device, level: number}, result, f"Done: {said}.")


def run_command(words: Words) -> Task:
    command = words.command()
    slot = words.any_of("command", "command", "cmd", "script")
    name = words.any_of("bash", "shell", _styled(words, words.any_of("run", "execute"), words.any_of("command", "shell", "bash", "cmd")))
    question = words.any_of(_please(words, f"Run {command}"), _please(words, f"Run the command {command}"), _please(words, f"Execute {command}"),
                            f"What does {command} print?", f"What does the command {command} show?")
    text = words.text(5)
    return Task("command", _tool(words, name, words.any_of("Run a command", "Run a shell command", "Execute a command in a shell"), {slot: STRING}), question,
                {slot: command}, text, f"The command printed: {text}")


def plain_list(words: Words) -> Task:
    """A tool without parameters."""
    topic = words.topic()
    name = _styled(words, words.any_of("list", "get", "show"), words.any_of("", "all", "my", "current"), topic)
    question = words.any_of(f"What is the {topic}?", f"Show my {topic}.", _please(words, f"List all {topic}"), _please(words, f"Show me the {topic}"),
                            f"What is my {topic}?", f"Tell me the {topic}.")
    result, said = _facts(words)
    return Task("list", _tool(words, name, words.any_of(f"Get the {topic}", f"List all {topic}", f"Shows the {topic} of the user"), {}), question, {}, result,
                f"The {topic} is {said}." if "What" in question or "the" in question else f"Here it is: {said}.")


def anything(words: Words) -> Task:
    """An unknown tool whose parameters the question names."""
    verb, topic = words.any_of("run", "make", "start", "update", "create", "check", "use", words.word(), words.made_up()), words.topic()
    slots, arguments, phrases = {}, {}, []
    for _ in range(words.rng.choice((1, 1, 2, 2, 3))):
        slot = words.any_of(words.word(), words.made_up(), "size", "color", "mode", "target", "name", "speed", "count", "level", "owner", "label", "date")
        if slot in slots:
            continue
        if words.chance(0.35):
            value: object = words.number()
            slots[slot] = words.any_of(_numeric(value), NUMBER)
        else:
            value = words.any_of(words.word(), words.text(3), words.person(), words.date(), words.path(), words.identifier())
            slots[slot] = STRING
        arguments[slot] = value
        phrases.append(f"{slot} {value}")
    link = words.any_of("with", "with", "for", "using")
    listed = phrases[0] if len(phrases) == 1 else words.any_of(", ", " and ").join(phrases) if len(phrases) == 2 else ", ".join(phrases[:-1]) + f" and {phrases[-1]}"
    result, said = words.any_of(("ok", "ok"), ("done", "done"), _facts(words))
    name = _styled(words, verb, topic)
    question = words.any_of(f"{verb.capitalize()} the {topic} {link} {listed}", f"{verb.capitalize()} {topic} {link} {listed}", f"Call {name} with {listed}",
                            f"Use {name} with {listed}")
    return Task("anything", _tool(words, name, words.any_of(f"{verb.capitalize()} the {topic}", f"{verb.capitalize()} a {topic}", f"{verb} {topic}"), slots),
                _please(words, question), arguments, result, f"Done: {said}.")


KINDS = ((lookup_place, 22), (lookup_person, 9), (lookup_thing, 8), (lookup_number, 6), (search, 8), (read_file, 9), (calculate, 7), (calculate_pair, 3),
         (convert, 5), (translate, 4), (add_event, 5), (send, 5), (switch, 5), (run_command, 5), (plain_list, 4), (anything, 10))


def draw_task(words: Words) -> Task:
    kinds, weights = zip(*KINDS)
    return words.rng.choices(kinds, weights)[0](words)


def is_confusing(one: Task, other: Task) -> bool:
    """Whether a question for one tool could be meant for the other, too."""
    if one.tool["name"] == other.tool["name"]:
        return True
    same = {"search", "file", "calculator", "convert", "translate", "event", "send", "switch", "command"}
    if one.kind == other.kind and one.kind in same:
        return True
    words_of = lambda task: set(re.findall(r"[a-z]+", f"{task.tool['name']} {task.tool.get('description', '')}".lower()))  # noqa: E731
    common = {"get", "the", "of", "a", "for", "find", "check", "look", "up", "show", "fetch", "read", "query", "current", "info", "returns", "given", "by",
              "tells", "in", "city", "place", "town", "location", "person", "user", "customer", "contact", "product", "item", "thing", "number", "id"}
    return bool((words_of(one) & words_of(other)) - common)
