"""The words of the second bundled model's training text: things, places, people, and made-up words.

Each list has words for training and words that are held back for measuring. Everything here was written for this
project; made-up words come from syllables.
"""

import random

# What a tool can be asked for. Words of the second list never occur in training.
TOPICS = """weather|temperature|population|time|air quality|humidity|rain forecast|wind speed|traffic|news|price|stock price|
phone number|email address|birthday|home address|salary|job title|order status|delivery date|score|ranking|opening hours|
bus schedule|train schedule|flight status|exchange rate|menu|calories|recipe|definition|synonym|capital|area|height|weight|
length|battery level|room temperature|water level|noise level|member list|account balance|invoice|ticket|seat|parking|
hotel|restaurant|museum|concert|movie|book|song|album|painting|photo|map|route|distance|speed limit|fuel price|gold price|
snow depth|sunset|sunrise|moon phase|pulse|blood type|sleep|steps|workout|diet|medicine|doctor|pharmacy|school|teacher|
course|exam|grade|library|garden plan|soil|harvest|forest fire|river|bridge|tunnel|harbour|ship|engine|tyre pressure|
warranty|repair|spare part|manual|licence|tax|rent|insurance|pension|vote|law|court|police report|passport|visa|embassy|
holiday|festival|team|coach|stadium|league|trophy|server load|disk space|memory use|error log|build status|test result|
release notes|open issues|branch|version|download|upload|backup|password|user profile|message count|printer|camera"""
TOPICS_HELD_BACK = """tide|pollen|currency|earthquake risk|ferry|wifi signal|nickname|dividend|horoscope|elevation|wave height|
queue length|shoe size|refund|coupon|voltage|aquarium|bakery|podcast|playlist|satellite|comet|glacier|volcano|orchestra|
theatre|subscription|receipt|courier|mailbox|solar output|charging station|bicycle|skating rink|allergy|vaccine"""
CITIES = """Paris|Berlin|London|Madrid|Rome|Vienna|Prague|Lisbon|Dublin|Athens|Warsaw|Zurich|Geneva|Milan|Naples|Hamburg|Munich|
Cologne|Lyon|Nice|Porto|Seville|Bergen|Malmo|Turku|Riga|Vilnius|Sofia|Cairo|Tunis|Lagos|Nairobi|Accra|Delhi|Mumbai|Tokyo|
Osaka|Kyoto|Seoul|Beijing|Hanoi|Bangkok|Jakarta|Manila|Sydney|Perth|Auckland|Toronto|Montreal|Boston|Chicago|Dallas|Denver|
Seattle|Miami|Lima|Quito|Bogota|Santiago|New York|San Francisco|Los Angeles|Buenos Aires|Mexico City|Cape Town|Hong Kong"""
CITIES_HELD_BACK = """Oslo|Bonn|Helsinki|Stockholm|Copenhagen|Budapest|Brussels|Rotterdam|Salzburg|Kathmandu|Montevideo|Havana|
Reykjavik|San Diego|Rio de Janeiro|Tallinn|Leipzig|Ghent"""
PEOPLE = """Maria|John|Peter|Lucas|Emma|Sofia|Paul|Laura|David|Sarah|Julia|Mark|Tom|Nina|Ivan|Olga|Hans|Greta|Lena|Max|Felix|
Clara|Simon|Ruth|Jack|Alice|Henry|Rose|George|Ella|Adam|Eve|Oscar|Mia|Leo|Zoe|Omar|Aisha|Chen|Yuki|Ravi|Priya|Carlos|Ana"""
PEOPLE_HELD_BACK = """Anna|Bob|Carla|Dmitri|Esther|Frank|Hilda|Igor|Kofi|Mildred|Noah|Petra|Quentin|Tina|Walter"""
SURNAMES = "Smith|Berg|Stone|Miller|Lopez|Novak|Rossi|Weber|Brown|Silva|Kim|Sato|Khan|Larsen|Dubois|Moreau"
SURNAMES_HELD_BACK = "Keller|Jansen|Okafor|Lindqvist|Marsh|Petrov"
WORDS = """red|blue|green|old|new|small|large|cold|warm|quick|quiet|bright|dark|sweet|round|apple|bread|milk|cheese|coffee|tea|
table|chair|lamp|window|door|house|street|garden|tree|flower|stone|river|lake|mountain|cloud|storm|winter|summer|morning|
evening|night|dog|cat|horse|bird|fish|mouse|train|car|plane|boat|wheel|engine|music|guitar|piano|dance|story|letter|paper|
pencil|picture|number|answer|question|meeting|lunch|dinner|party|project|plan|report|budget|office|team|friend|mother|
father|sister|brother|child|doctor|teacher|good|happy|late|early|ready|please|call|bring|buy|meet|see|you|at|the|my|with|
for|is|we|are|need|more|some|today|soon|here|home|work|school|shop|market|station|ticket|holiday|birthday|gift|game|ball"""
WORDS_HELD_BACK = """purple|silver|narrow|gentle|banana|butter|pepper|kettle|carpet|ladder|meadow|thunder|autumn|rabbit|turtle|
tractor|violin|poem|envelope|invoice|breakfast|deadline|uncle|cousin|nurse|library|airport|bridge|candle|marble|walk|read"""
LANGUAGES = "French|German|Spanish|Italian|Dutch|Polish|Greek|Japanese|Korean|Arabic|Hindi|Turkish"
LANGUAGES_HELD_BACK = "Norwegian|Portuguese|Swahili|Finnish"
UNITS = """miles|kilometers|meters|feet|inches|pounds|kilograms|grams|ounces|liters|gallons|hours|minutes|seconds|days|weeks|
celsius|fahrenheit|euros|dollars|yen"""
UNITS_HELD_BACK = "yards|centimeters|pints|years|francs"
DEVICES = """kitchen light|heater|fan|radio|door lock|oven|alarm|garden lamp|television|washing machine|coffee machine|heating|
bedroom light|camera|printer|pump"""
DEVICES_HELD_BACK = "desk lamp|toaster|dishwasher|bathroom light|doorbell|sprinkler"
WEEKDAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|tomorrow|today"
EXTENSIONS = "txt|md|py|json|csv|log|html|cpp|yaml|pdf"
FOLDERS = "home|data|src|docs|notes|tmp|work|logs|tests|images"
ONSETS = ("||||b|b|bl|br|c|c|ch|cl|cr|d|d|dr|f|f|fl|fr|g|g|gl|gr|h|h|j|k|k|kl|kr|kn|l|l|m|m|n|n|p|p|ph|pl|pr|qu|r|r|s|s|sc|sch|sh|sk|sl|sm|sn|sp|"
          "st|st|str|sw|t|t|th|tr|tw|v|v|w|wh|x|y|z").split("|")
VOWELS = "a|a|a|e|e|e|i|i|i|o|o|o|u|u|y|ai|au|ea|ee|ei|ia|ie|io|oa|oo|ou|ua|ue".split("|")
CODAS = "||||||b|ck|ct|d|d|f|ff|g|k|l|l|ld|ll|lt|m|m|n|n|nd|ng|nk|nt|p|pt|r|r|rd|rk|rm|rn|rt|s|s|sh|sk|ss|st|t|t|th|tt|v|x|z".split("|")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def split_list(text: str) -> list[str]:
    return text.replace("\n", "").split("|")


class Words:
    """Draws words of one side: those for training, or those held back for measuring."""

    def __init__(self, rng: random.Random, is_held_back: bool):
        self.rng, self.is_held_back = rng, is_held_back

    def _list(self, training: str, held_back: str) -> list[str]:
        return split_list(held_back if self.is_held_back else training)

    def any_of(self, *options):
        return self.rng.choice(options)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def made_up(self, syllables: int | None = None) -> str:
        rng = self.rng
        if self.chance(0.08):
            return "".join(rng.choice(LETTERS) for _ in range(rng.randint(2, 7)))
        count = syllables or rng.choice((1, 2, 2, 3))
        return "".join(rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(count))

    def word(self) -> str:
        if self.chance(0.4):
            return self.made_up()
        return self.rng.choice(self._list(WORDS, WORDS_HELD_BACK))

    def topic(self) -> str:
        dice = self.rng.random()
        if dice < 0.35:
            return self.rng.choice(self._list(TOPICS, TOPICS_HELD_BACK))
        if dice < 0.55:
            nouns = self._list(WORDS, WORDS_HELD_BACK)[: 65 if not self.is_held_back else 30]
            return " ".join(self.rng.sample(nouns, self.rng.choice((1, 2))))
        return self.made_up() if dice < 0.85 else f"{self.made_up()} {self.rng.choice(self._list(WORDS, WORDS_HELD_BACK)[:30])}"

    def text(self, longest: int = 5) -> str:
        return " ".join(self.word() for _ in range(self.rng.randint(1, longest)))

    def city(self) -> str:
        if self.chance(0.55):
            return " ".join(self.made_up().capitalize() for _ in range(self.rng.choice((1, 1, 1, 2))))
        return self.rng.choice(self._list(CITIES, CITIES_HELD_BACK))

    def person(self) -> str:
        first = self.made_up().capitalize() if self.chance(0.55) else self.rng.choice(self._list(PEOPLE, PEOPLE_HELD_BACK))
        if self.chance(0.6):
            return first
        last = self.made_up().capitalize() if self.chance(0.55) else self.rng.choice(self._list(SURNAMES, SURNAMES_HELD_BACK))
        return f"{first} {last}"

    def language(self) -> str:
        return self.rng.choice(self._list(LANGUAGES, LANGUAGES_HELD_BACK))

    def unit(self) -> str:
        return self.rng.choice(self._list(UNITS, UNITS_HELD_BACK))

    def device(self) -> str:
        return f"{self.made_up()} {self.rng.choice(['lamp', 'motor', 'door'])}" if self.chance(0.2) else self.rng.choice(
            self._list(DEVICES, DEVICES_HELD_BACK))

    def date(self) -> str:
        rng = self.rng
        if self.chance(0.5):
            return rng.choice(split_list(WEEKDAYS))
        return f"20{rng.randint(10, 39)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"

    def clock(self) -> str:
        return f"{self.rng.randint(0, 23):02}:{self.rng.choice((0, 5, 10, 15, 20, 30, 40, 45, 50)):02}"

    def number(self) -> int | float:
        rng = self.rng
        dice = rng.random()
        if dice < 0.75:
            return rng.randint(1, rng.choice((9, 99, 999)))
        return rng.randint(1000, 99999) if dice < 0.85 else round(rng.uniform(0.1, 99), rng.choice((1, 2)))

    def path(self) -> str:
        rng = self.rng
        stem = self.made_up() if self.chance(0.4) else rng.choice(self._list(WORDS, WORDS_HELD_BACK)[:60])
        if self.chance(0.2):
            stem += f"_{self.word()}"
        name = f"{stem}.{rng.choice(split_list(EXTENSIONS))}"
        folders = [rng.choice(split_list(FOLDERS)) if self.chance(0.7) else self.made_up(1)
                   for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        return ("/" if folders and self.chance(0.5) else "") + "/".join([*folders, name])

    def identifier(self) -> str:
        return f"{self.any_of('', '', 'A', 'K', 'ZX')}{self.any_of('', '-')}{self.rng.randint(10, 9999)}".lstrip("-")

    def expression(self) -> str:
        rng = self.rng
        text = str(rng.randint(1, 99))
        for _ in range(rng.choice((1, 1, 1, 2))):
            text += f" {rng.choice('+-*/')} {rng.randint(1, rng.choice((9, 99, 999)))}"
        return text

    def command(self) -> str:
        return self.any_of(f"ls {self.any_of('-l', '-la', self.path())}", f"cat {self.path()}", f"rm {self.path()}",
                           f"grep {self.word()} {self.path()}", f"python {self.path()}", f"echo {self.text(3)}", "pwd",
                           f"mkdir {self.word()}", f"wc -l {self.path()}", f"git {self.any_of('status', 'log', 'diff')}")
