"""Short stories from a small grammar.

`[a|b|c]` is a choice, `{slot}` a word that stays the same through one story. Choices nest. The variety
comes from plots x choices x slots; the coherence comes from the slots, which the model has to carry.
"""

import random
import re

from problems import BOYS, GIRLS

ANIMALS = ["fox", "rabbit", "bear", "mouse", "duck", "cat", "dog", "frog", "squirrel", "turtle", "bird", "pony",
           "lamb", "hedgehog", "owl", "bee"]
SIZES = ["little", "small", "young", "tiny", "brave", "happy", "kind", "shy", "curious", "clever"]
COLOURS = ["red", "blue", "green", "yellow", "golden", "white", "purple", "brown"]
PLACES = ["near the river", "in the green forest", "by the sea", "on a small farm", "under an old oak tree",
          "in a quiet village", "at the edge of the meadow", "on top of a hill", "beside the lake",
          "in a cozy house"]
HIDING = ["the old oak tree", "the garden gate", "a big rock", "the rose bush", "the wooden bridge", "the tall grass",
          "the apple tree", "a pile of leaves"]
TREASURES = ["ball", "kite", "scarf", "hat", "drum", "boat", "lantern", "bell", "blanket", "toy train"]
SKILLS = ["swim", "sing", "dance", "whistle", "fly a kite", "climb a tree", "paint", "skate", "jump over the stream",
          "bake bread"]
TREATS = ["cake", "pie", "sandwich", "bowl of soup", "basket of berries", "loaf of bread", "jar of honey",
          "bag of nuts"]
PLANTS = ["sunflower", "pumpkin", "rose", "apple tree", "tomato plant", "bean plant"]

OPENINGS = [
    "[Once upon a time, there was|Once upon a time, there lived|Once there was|Long ago, there lived] "
    "a {size} {kind} named {hero}. {They} lived {place}.",
    "Once upon a time, a {size} {kind} named {hero} lived {place}.",
    "In a land far away, a {size} {kind} named {hero} lived {place}.",
    "{hero} was a {size} {kind} who lived {place}.",
]

PLOTS = [
    # Something is lost and found.
    "{hero} had a {colour} {treasure}. {They} loved to play with it [every day|all day long|every morning]. "
    "[One day|One windy morning|One afternoon], the {treasure} was gone! {hero} looked [under the bed|behind the door|"
    "in the kitchen], but it was not there. {hero} felt [very sad|like crying|worried]. "
    "Then {their} friend {friend} the {friend_kind} came by. \"[Why are you sad|What is wrong], {hero}?\" asked {friend}. "
    "\"I lost my {colour} {treasure},\" said {hero}. \"[Do not worry|Do not cry]. I will help you,\" said {friend}. "
    "They looked everywhere. At last, they found the {treasure} behind {hiding}. "
    "{hero} [was so happy|jumped for joy|smiled a big smile] and said, \"Thank you, {friend}!\" "
    "[After that, they played with the {treasure} together.|From that day on, {hero} always shared the {treasure} "
    "with {friend}.]",
    # A skill is learned.
    "{hero} wanted to [learn how to|learn to] {skill}. {They} tried and tried, but {they} could not do it. "
    "[\"It is too hard,\" said {hero}.|{hero} felt sad and sat down.] [A wise old owl|{Their} grandmother|{Their} mother] "
    "said, \"[Keep trying, {hero}|Do not give up, {hero}]. [Practice a little every day|You can do it if you keep "
    "practicing].\" So {hero} practiced [every morning|every day after breakfast|every day until sunset]. "
    "{friend} the {friend_kind} [came to watch|came to help|cheered for {them}]. "
    "After [three days|one week|many days], {hero} could {skill}! [Everyone clapped.|{friend} clapped and laughed.] "
    "{hero} was [very proud|so proud and happy]. [{They} learned that hard work helps.|{They} learned to never give up.]",
    # A treat is shared and kindness comes back.
    "One day, {hero} had a big {treat}. {They} was about to eat it when {friend} the {friend_kind} came along. "
    "\"I am so hungry,\" said {friend}. {hero} [thought for a moment|looked at the {treat}|smiled]. "
    "\"[Let us share it|You can have half of it|We can eat it together],\" said {hero}. "
    "They sat down [under a tree|on the soft grass|in the sun] and ate the {treat} together. It tasted [very good|sweet "
    "and warm|wonderful]. The next day, [it was cold and {hero} had nothing to eat|{hero} was hungry]. {friend} came "
    "with a {treat2}. \"Yesterday you shared with me,\" said {friend}. \"Today I will share with you.\" "
    "{hero} was [happy to have such a good friend|very glad]. [Sharing made them best friends.|They were best friends "
    "from that day on.]",
    # A storm, a shelter, a new friend.
    "One [afternoon|evening], dark clouds came and it began to rain. {hero} ran to [a small cave|an old barn|a hollow "
    "tree] to stay dry. Inside, {they} heard a [soft|quiet|small] voice. It was a {friend_kind} named {friend}. "
    "{friend} was [cold and scared|shaking|afraid of the thunder]. \"Do not be afraid,\" said {hero}. \"I will stay with "
    "you.\" {hero} shared {their} {colour} {warm} with {friend}. They told each other [stories|jokes|funny "
    "stories] until the rain stopped. When they went outside, there was a big rainbow in the sky. "
    "\"[How pretty|Look at that]!\" said {friend}. [From that day on, {hero} and {friend} were best friends.|{hero} and "
    "{friend} played in the puddles all day.]",
    # A seed grows.
    "One spring day, {hero} found a tiny seed [on the ground|in the garden|behind {hiding}]. \"What will it be?\" "
    "{they} asked. {hero} put the seed in the ground and gave it water every day. {friend} the {friend_kind} [laughed and "
    "said, \"It is only a seed.\"|said, \"Nothing is there.\"] But {hero} [waited and waited|did not stop]. "
    "[One morning|After many days], a small green leaf came up. It grew and grew until it was a [big|tall|beautiful] "
    "{plant}! {friend} was [surprised|amazed]. \"You were right to wait,\" said {friend}. {hero} smiled. "
    "[Good things take time.|They sat beside the {plant} and watched the sunset.]",
    # Someone is stuck and gets help.
    "One day, {hero} was walking [alone|slowly|happily] when {they} heard a cry. \"Help! Help!\" It came from behind "
    "{hiding}. {hero} ran to see. {friend} the {friend_kind} was stuck in [the mud|a hole|a thorny bush]! "
    "\"[Hold on|Do not worry],\" said {hero}. \"I will help you.\" {They} pulled and pulled. [It was hard work.|At first, "
    "nothing happened.] Then, pop! {friend} was free. \"Thank you, {hero}! You are so [brave|kind|strong],\" said "
    "{friend}. {friend} gave {them} a {colour} {treasure} as a gift. [{hero} kept it forever.|They played with it "
    "until the sun went down.]",
    # The dark is not so bad.
    "Every night, {hero} was afraid of the dark. [{They} hid under the blanket.|{They} could not sleep.] "
    "One night, {friend} the {friend_kind} came to the window. \"Come outside,\" said {friend}. \"I want to show you "
    "something.\" {hero} was [scared|not sure], but {they} went. Outside, the sky was full of stars. "
    "The moon was [big and bright|round and white]. [Little fireflies danced in the air.|The night was quiet and soft.] "
    "\"The dark is beautiful,\" said {hero}. {They} was not afraid [any more|now]. "
    "[That night, {hero} slept very well.|{hero} thanked {friend}, went back to bed and had sweet dreams.]",
    # A map and a box.
    "One day, {hero} found an old map [in a book|under the floor|in a bottle]. \"Look, {friend}!\" {they} called. "
    "{friend} the {friend_kind} came running. They followed the map over the [bridge|hill] and past {hiding}. "
    "They walked [for a long time|all morning]. At last, they saw a big {colour} box. \"[What is inside|Is it gold]?\" asked "
    "{friend}. {hero} opened it slowly. Inside was a {colour2} {treasure}. [They laughed and laughed.|They looked at each "
    "other and smiled.] \"[The walk was the best part|It is perfect for two],\" said {hero}. They took the {treasure} home "
    "and played [until dinner|together every day].",
    # A present.
    "Tomorrow was {friend}'s birthday. {friend} was a {friend_kind} and {hero}'s best friend. {hero} wanted to give "
    "{friend} a present, but {they} had no money. \"I will make something,\" said {hero}. {They} worked [all day|all "
    "night|all morning]. {They} made a {colour} {treasure}. [It was not perfect.|It looked a little funny.] "
    "The next day, {hero} gave it to {friend}. \"You made this for me?\" asked {friend}. \"It is the best present of all!\" "
    "They [hugged|danced] and ate {treat_some}. {hero} was [very happy|full of joy].",
]

CLOSINGS = ["", "", "", " The end.", " And they lived happily ever after."]

WARM = ["blanket", "scarf", "coat"]
TREAT_SOME = ["cake", "pie", "sweet berries", "honey bread"]

_CHOICE = re.compile(r"\[([^\[\]]*)\]")


def _expand(template: str, rng: random.Random) -> str:
    while _CHOICE.search(template):
        template = _CHOICE.sub(lambda m: rng.choice(m.group(1).split("|")), template)
    return template


def tell(rng: random.Random, kind: str | None = None, hero: str | None = None) -> str:
    """One story; `kind` and `hero` fix what it is about."""
    if kind is None:
        kind = rng.choice(ANIMALS + ["girl", "boy"])
    if hero is None:
        hero = rng.choice(GIRLS if kind == "girl" else BOYS if kind == "boy" else GIRLS + BOYS)
    friend = rng.choice([n for n in GIRLS + BOYS if n != hero])
    they = "she" if hero in GIRLS else "he"
    colour, colour2 = rng.sample(COLOURS, 2)
    treat, treat2 = rng.sample(TREATS, 2)
    slots = dict(
        hero=hero, kind=kind, friend=friend, friend_kind=rng.choice([a for a in ANIMALS if a != kind]),
        they=they, They=they.capitalize(),
        them="her" if they == "she" else "him", their="her" if they == "she" else "his",
        Their="Her" if they == "she" else "His",
        size=rng.choice(SIZES), place=rng.choice(PLACES), colour=colour, colour2=colour2, treat=treat, treat2=treat2,
        treat_some=rng.choice(TREAT_SOME), warm=rng.choice(WARM), treasure=rng.choice(TREASURES),
        skill=rng.choice(SKILLS), hiding=rng.choice(HIDING), plant=rng.choice(PLANTS))
    text = f"{rng.choice(OPENINGS)} {rng.choice(PLOTS)}{rng.choice(CLOSINGS)}"
    # "a owl" becomes "an owl" after the slots are filled, where the noun is known.
    return re.sub(r"\b([Aa]) (?=[aeio])", r"\1n ", _expand(text, rng).format(**slots))
