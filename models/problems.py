"""Word problems with the reasoning written out, in the shape of GSM8K answers.

Every problem belongs to a *shape*: its family plus the kinds of events in it. A (shape, numbers) pair is
either a training pair or a held-back pair, decided by a hash. Both sides draw from the same generators,
so the held-back set can never contain a pair that training saw, whatever the seeds are.
"""

import hashlib
import random
from dataclasses import dataclass

HELD_BACK_PERCENT = 4
MAX_VALUE = 100  # every number a problem mentions or reaches stays in 1..MAX_VALUE

GIRLS = """Anna Bella Clara Daisy Emma Fiona Grace Hannah Ivy Julia Kate Lily Lucy Maria Mia Nina Nora Olivia
Rosa Ruby Sara Sofia Tina Zoe""".split()
BOYS = """Adam Ben Carlos David Eli Finn George Henry Ivan Jack Jacob Leo Liam Max Noah Omar Oscar Paul Peter
Sam Theo Tim Tom Will""".split()

TOYS = [("marble", "marbles"), ("sticker", "stickers"), ("card", "cards"), ("shell", "shells"),
        ("stamp", "stamps"), ("book", "books"), ("pencil", "pencils"), ("button", "buttons"),
        ("stone", "stones"), ("balloon", "balloons"), ("coin", "coins"), ("bead", "beads"),
        ("crayon", "crayons"), ("block", "blocks"), ("ribbon", "ribbons"), ("flower", "flowers")]
FOODS = [("apple", "apples"), ("cookie", "cookies"), ("pear", "pears"), ("plum", "plums"),
         ("candy", "candies"), ("grape", "grapes"), ("muffin", "muffins"), ("nut", "nuts"),
         ("egg", "eggs"), ("orange", "oranges"), ("cherry", "cherries"), ("carrot", "carrots")]
CONTAINERS = [("box", "boxes"), ("bag", "bags"), ("basket", "baskets"), ("jar", "jars"), ("pack", "packs"),
              ("shelf", "shelves"), ("tray", "trays")]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]


@dataclass(frozen=True)
class Problem:
    shape: str
    numbers: tuple[int, ...]
    question: str
    steps: tuple[str, ...]
    final: int

    @property
    def answer(self) -> str:
        return "\n".join((*self.steps, f"#### {self.final}"))

    def is_held_back(self) -> bool:
        pair = f"{self.shape}:{self.numbers}".encode()
        return int.from_bytes(hashlib.sha256(pair).digest()[:4], "big") % 100 < HELD_BACK_PERCENT


@dataclass(frozen=True)
class Person:
    name: str
    they: str
    them: str

    @property
    def They(self) -> str:  # noqa: N802 - the capital is the point
        return self.they.capitalize()


def people(rng: random.Random, count: int) -> list[Person]:
    names = rng.sample(GIRLS + BOYS, count)
    return [Person(n, "she", "her") if n in GIRLS else Person(n, "he", "him") for n in names]


def counted(value: int, noun: tuple[str, str]) -> str:
    return f"{value} {noun[0] if value == 1 else noun[1]}"


def thing(rng: random.Random) -> tuple[str, str]:
    return rng.choice(TOYS + FOODS)


# What can happen to a pile of things: (kind, sign, text in the question, only for food).
EVENTS = [
    ("find", +1, "{They} finds {n} more.", False),
    ("buy", +1, "{They} buys {n} more at the shop.", False),
    ("receive", +1, "{friend} gives {them} {n} more.", False),
    ("win", +1, "Then {they} gets {n} more from a friend.", False),
    ("give", -1, "{They} gives {n} to {friend}.", False),
    ("lose", -1, "{They} loses {n} on the way home.", False),
    ("sell", -1, "{They} sells {n} at the market.", False),
    ("eat", -1, "{They} eats {n} of them.", True),
]


def chain(rng: random.Random) -> Problem:
    """A pile that grows and shrinks in one to three events."""
    who, friend = people(rng, 2)
    is_food = rng.random() < 0.45
    noun = rng.choice(FOODS if is_food else TOYS)
    value = start = rng.randint(2, 98)
    sentences = [f"{who.name} has {counted(start, noun)}."]
    steps, numbers, kinds = [], [start], []
    for _ in range(rng.choice([1, 2, 2, 3])):
        sign = -1 if value > 90 else +1 if value < 4 else rng.choice([-1, +1])
        kind, _, text, _ = rng.choice([e for e in EVENTS if e[1] == sign and (is_food or not e[3])])
        n = rng.randint(2, min(MAX_VALUE - value, 60)) if sign > 0 else rng.randint(2, value - 1)
        sentences.append(text.format(n=n, friend=friend.name, them=who.them, they=who.they, They=who.They))
        after = value + sign * n
        steps.append(f"{who.name} {'gets' if sign > 0 else 'loses'} {n}, so {value} {'+' if sign > 0 else '-'} {n}"
                     f" = {after}.")
        numbers.append(n)
        kinds.append(kind)
        value = after
    ask = rng.choice([f"How many {noun[1]} does {who.name} have now?",
                      f"How many {noun[1]} does {who.name} have in the end?"])
    return Problem("chain/" + "/".join(kinds), tuple(numbers), " ".join([*sentences, ask]), tuple(steps), value)


def together(rng: random.Random) -> Problem:
    """Two or three people put their things together; sometimes some are then used up."""
    crowd = people(rng, rng.choice([2, 2, 3]))
    noun = thing(rng)
    numbers = [rng.randint(2, MAX_VALUE // len(crowd)) for _ in crowd]
    sentences = [f"{p.name} has {counted(n, noun)}." for p, n in zip(crowd, numbers)]
    total, steps = numbers[0], []
    for n in numbers[1:]:
        steps.append(f"Together that is {total} + {n} = {total + n}.")
        total += n
    shape = f"together/{len(crowd)}"
    if rng.random() < 0.35:
        used = rng.randint(2, total - 1)
        sentences.append(f"They put them together and give away {used}.")
        ask = f"How many {noun[1]} are left?"
        steps.append(f"They give away {used}, so {total} - {used} = {total - used}.")
        total -= used
        numbers.append(used)
        shape += "/give"
    else:
        ask = f"How many {noun[1]} do they have together?"
    return Problem(shape, tuple(numbers), " ".join([*sentences, ask]), tuple(steps), total)


def comparison(rng: random.Random) -> Problem:
    """One has some more or fewer than the other; asks for the other's or for both."""
    one, two = people(rng, 2)
    noun = thing(rng)
    more, both = rng.random() < 0.5, rng.random() < 0.5
    first = rng.randint(4, 45 if both else 80)
    gap = rng.randint(2, (MAX_VALUE - 2 * first if both else MAX_VALUE - first) if more else first - 1)
    second = first + gap if more else first - gap
    steps = [f"{two.name} has {first} {'+' if more else '-'} {gap} = {second}."]
    question = f"{one.name} has {counted(first, noun)}. {two.name} has {gap} {'more' if more else 'fewer'} than {one.name}."
    final = second
    if both:
        question += f" How many {noun[1]} do they have together?"
        steps.append(f"Together that is {first} + {second} = {first + second}.")
        final = first + second
    else:
        question += f" How many {noun[1]} does {two.name} have?"
    shape = f"comparison/{'more' if more else 'fewer'}/{'both' if both else 'one'}"
    return Problem(shape, (first, gap), question, tuple(steps), final)


def difference(rng: random.Random) -> Problem:
    """How many more has one than the other; the larger number may come second."""
    one, two = people(rng, 2)
    noun = thing(rng)
    small, large = sorted(rng.sample(range(2, MAX_VALUE), 2))
    first, second = (large, small) if rng.random() < 0.5 else (small, large)
    rich, poor = (one, two) if first == large else (two, one)
    question = (f"{one.name} has {counted(first, noun)} and {two.name} has {second}. "
                f"How many more {noun[1]} does {rich.name} have than {poor.name}?")
    return Problem("difference", (first, second), question,
                   (f"The difference is {large} - {small} = {large - small}.",), large - small)


def containers(rng: random.Random) -> Problem:
    """Equal groups, then a few loose ones more or a few taken out."""
    who, friend = people(rng, 2)
    noun, box = thing(rng), rng.choice(CONTAINERS)
    groups, each = rng.randint(2, 9), rng.randint(2, 9)
    total = groups * each
    question = f"{who.name} has {counted(groups, box)} with {counted(each, noun)} in each {box[0]}."
    steps, numbers = [f"The {box[1]} hold {groups} * {each} = {total}."], [groups, each]
    kind = rng.choice(["all", "loose", "give"])
    if kind == "loose":
        extra = rng.randint(2, min(40, MAX_VALUE - total))
        question += f" {who.They} also has {extra} more on the table. How many {noun[1]} does {who.name} have?"
        steps.append(f"With {extra} more it is {total} + {extra} = {total + extra}.")
        numbers.append(extra)
        total += extra
    elif kind == "give":
        taken = rng.randint(2, total - 1)
        question += f" {who.They} gives {taken} to {friend.name}. How many {noun[1]} does {who.name} have left?"
        steps.append(f"{who.name} loses {taken}, so {total} - {taken} = {total - taken}.")
        numbers.append(taken)
        total -= taken
    else:
        question += f" How many {noun[1]} does {who.name} have?"
    return Problem(f"containers/{kind}", tuple(numbers), question, tuple(steps), total)


def shopping(rng: random.Random) -> Problem:
    """Several things at one price, paid from a purse."""
    (who,) = people(rng, 1)
    noun = thing(rng)
    count, price = rng.randint(2, 9), rng.randint(2, 9)
    cost = count * price
    purse = rng.randint(cost + 1, MAX_VALUE)
    question = (f"{who.name} has {purse} dollars. {who.They} buys {counted(count, noun)} for {price} dollars each. "
                f"How many dollars does {who.name} have left?")
    steps = (f"The {noun[1]} cost {count} * {price} = {cost}.",
             f"{who.name} has {purse} - {cost} = {purse - cost} left.")
    return Problem("shopping", (purse, count, price), question, steps, purse - cost)


def days(rng: random.Random) -> Problem:
    """The same activity on two or three days; asks for the sum, or for what remains of a goal."""
    (who,) = people(rng, 1)
    verb, past, noun, goal_text = rng.choice([
        ("read", "reads", "pages", "The book has {goal} pages."),
        ("bake", "bakes", "cakes", "The shop needs {goal} cakes."),
        ("plant", "plants", "trees", "The park needs {goal} trees."),
        ("walk", "walks", "miles", "The trail is {goal} miles long."),
        ("paint", "paints", "walls", "The school has {goal} walls."),
    ])
    count = rng.choice([2, 2, 3])
    first_day = rng.randint(0, len(DAYS) - count)
    numbers = [rng.randint(2, 98 // count) for _ in range(count)]
    done = [f"{n} {noun} on {DAYS[first_day + i]}" for i, n in enumerate(numbers)]
    listing = " and ".join(done) if count == 2 else f"{done[0]}, {done[1]} and {done[2]}"
    question = f"{who.name} {past} {listing}."
    total, steps = numbers[0], []
    for n in numbers[1:]:
        steps.append(f"Together that is {total} + {n} = {total + n}.")
        total += n
    if rng.random() < 0.5:
        goal = rng.randint(total + 1, MAX_VALUE)
        question = f"{goal_text.format(goal=goal)} {question} How many {noun} are left?"
        steps.append(f"There are {goal} - {total} = {goal - total} left.")
        return Problem(f"days/{count}/{verb}/goal", (goal, *numbers), question, tuple(steps), goal - total)
    question += f" How many {noun} is that in all?"
    return Problem(f"days/{count}/{verb}/sum", tuple(numbers), question, tuple(steps), total)


FAMILIES = [chain, chain, chain, together, comparison, difference, containers, shopping, days]


def draw(rng: random.Random, held_back: bool = False) -> Problem:
    """One problem from the training side, or from the held-back side, of the hash."""
    while True:
        problem = rng.choice(FAMILIES)(rng)
        if problem.is_held_back() == held_back:
            return problem


def draw_equation(rng: random.Random) -> str:
    """Bare arithmetic over the same range: the densest way to teach the number facts."""
    sign = rng.choice("+++---*")
    if sign == "*":
        a, b = rng.randint(2, 9), rng.randint(2, 9)
        return f"{a} * {b} = {a * b}"
    total = rng.randint(3, MAX_VALUE)
    part = rng.randint(1, total - 1)
    return f"{part} + {total - part} = {total}" if sign == "+" else f"{total} - {part} = {total - part}"
