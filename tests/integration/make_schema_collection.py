"""Writes schema_collection.jsonl: schemas in the shapes in which programs and people send them.

  make_schema_collection.py > schema_collection.jsonl

Needs pydantic (2.x) from PyPI; the tests read the file and do not run this script. The schemas of zod, of tool servers
and of OpenAI's documentation are written in the shapes that these publish; nothing is copied from them."""

import datetime
import decimal
import enum
import json
import typing
import uuid

import pydantic
from pydantic import BaseModel, ConfigDict, Field

LINES = []


def add(source, name, schema):
    LINES.append({"source": source, "name": name, "schema": schema})


# ---- pydantic -------------------------------------------------------------------------------------------------------

class Color(str, enum.Enum):
    red = "red"
    green = "green"
    blue = "blue"


class Level(enum.IntEnum):
    low = 1
    high = 3


class Point(BaseModel):
    x: float
    y: float


class Address(BaseModel):
    street: str
    city: str
    zip: str | None = None


class Cat(BaseModel):
    kind: typing.Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: typing.Literal["dog"]
    good: bool


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int
    b: str | None


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


Pet = typing.Annotated[Cat | Dog, Field(discriminator="kind")]

PYDANTIC_FIELDS = {
    "str": str, "int": int, "float": float, "bool": bool, "optional str": str | None, "union": int | str,
    "list of str": list[str], "list of list": list[list[int]], "dict of int": dict[str, int], "dict of list": dict[str, list[float]],
    "dict by enum": dict[Color, int], "set of str": set[str], "frozenset of int": frozenset[int], "set of enum": set[Color],
    "tuple": tuple[int, str], "tuple of any length": tuple[int, ...], "literal": typing.Literal["a", "b", 3],
    "one literal": typing.Literal["only"], "enum": Color, "int enum": Level, "any": typing.Any, "object": object,
    "decimal": decimal.Decimal, "decimal of 2 places": typing.Annotated[decimal.Decimal, Field(max_digits=8, decimal_places=2)],
    "decimal above 0": typing.Annotated[decimal.Decimal, Field(gt=0)],
    "date": datetime.date, "datetime": datetime.datetime, "time": datetime.time, "timedelta": datetime.timedelta,
    "uuid": uuid.UUID, "url": pydantic.HttpUrl, "bytes": bytes, "path": pydantic.FilePath, "secret": pydantic.SecretStr,
    "json": pydantic.Json, "ipv4": pydantic.IPvAnyAddress,
    "positive int": pydantic.PositiveInt, "non-negative int": pydantic.NonNegativeInt, "negative float": pydantic.NegativeFloat,
    "int 0 to 100": typing.Annotated[int, Field(ge=0, le=100)], "int above 5": typing.Annotated[int, Field(gt=5)],
    "float in (0, 1)": typing.Annotated[float, Field(gt=0, lt=1)], "float in [-1, 1]": typing.Annotated[float, Field(ge=-1, le=1)],
    "multiple of 5": typing.Annotated[int, Field(multiple_of=5)], "multiple of 0.5": typing.Annotated[float, Field(multiple_of=0.5)],
    "multiple of 0.01": typing.Annotated[float, Field(multiple_of=0.01)],
    "str of 1 to 50": typing.Annotated[str, Field(min_length=1, max_length=50)],
    "str to 500": typing.Annotated[str, Field(max_length=500)], "str to 2000": typing.Annotated[str, Field(max_length=2000)],
    "str to 65536": typing.Annotated[str, Field(max_length=65536)], "str from 10": typing.Annotated[str, Field(min_length=10)],
    "pattern": typing.Annotated[str, Field(pattern=r"^[A-Z]{2}\d{4}$")],
    "slug": typing.Annotated[str, Field(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=80)],
    "phone": typing.Annotated[str, Field(pattern=r"^\+?[1-9]\d{1,14}$")],
    "pattern anywhere": typing.Annotated[str, Field(pattern=r"\d")],
    "list of 1 to 3": typing.Annotated[list[int], Field(min_length=1, max_length=3)],
    "list to 1000": typing.Annotated[list[str], Field(max_length=1000)],
    "model": Address, "optional model": Address | None, "list of models": list[Point], "dict of models": dict[str, Point],
    "discriminated": Pet, "list of discriminated": list[Pet], "plain union of models": Cat | Dog, "tree": Tree, "strict": Strict, "open": Open,
    "nested unions": list[int | None] | dict[str, bool] | None, "default": typing.Annotated[int, Field(default=3, description="how many")],
    "strict int": pydantic.StrictInt, "color or level": Color | Level, "list of decimals": list[decimal.Decimal],
    "list of dates": list[datetime.date], "uuid or int": uuid.UUID | int, "tuple of models": tuple[Point, Point],
    "dict of any": dict[str, typing.Any], "nested dict": dict[str, dict[str, list[int]]],
}


def pydantic_models():
    for name, field in PYDANTIC_FIELDS.items():
        model = pydantic.create_model("Answer", value=(field, ...))
        add("pydantic", name, model.model_json_schema())
        if len(LINES) % 3 == 0:
            optional = pydantic.create_model("Answer", id=(int, ...), value=(typing.Optional[field], None))
            add("pydantic", name + ", optional", optional.model_json_schema())

    class Invoice(BaseModel):
        number: str = Field(pattern=r"^INV-\d{6}$", description="The number on the invoice")
        date: datetime.date
        lines: list["Line"] = Field(min_length=1, max_length=200)
        total: decimal.Decimal
        currency: typing.Literal["EUR", "USD", "GBP"]

    class Line(BaseModel):
        text: str = Field(max_length=300)
        amount: float = Field(ge=0)
        quantity: int = Field(ge=1, le=10_000)

    class Summary(BaseModel):
        title: str = Field(min_length=1, max_length=120)
        summary: str = Field(max_length=4000)
        topics: list[str] = Field(max_length=10)
        sentiment: typing.Literal["positive", "neutral", "negative"]
        score: float = Field(ge=0, le=1)

    class Person(BaseModel):
        name: str
        age: int = Field(ge=0, le=150)
        email: str | None = Field(default=None, max_length=254)
        addresses: list[Address] = []
        friends: list["Person"] = []

    class Event(BaseModel):
        model_config = ConfigDict(extra="forbid")
        id: uuid.UUID
        at: datetime.datetime
        kind: Color
        data: dict[str, str | int | float | bool | None]

    class Plan(BaseModel):
        steps: list["PlanStep"]
        done: bool = False

    class PlanStep(BaseModel):
        thought: str
        action: typing.Literal["search", "read", "write", "stop"]
        arguments: dict[str, str] = {}

    Invoice.model_rebuild(_types_namespace={"Line": Line})
    Person.model_rebuild(_types_namespace={"Person": Person})
    Plan.model_rebuild(_types_namespace={"PlanStep": PlanStep})
    for model in (Invoice, Line, Summary, Person, Event, Plan, Address, Point, Cat, Tree, Strict, Open):
        add("pydantic", f"model {model.__name__}", model.model_json_schema())


# ---- zod 4 ----------------------------------------------------------------------------------------------------------

SAFE = {"minimum": -9007199254740991, "maximum": 9007199254740991}
INT = {"type": "integer", **SAFE}
DATE = (r"(?:(?:\d\d[2468][048]|\d\d[13579][26]|\d\d0[48]|[02468][048]00|[13579][26]00)-02-29|\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|"
        r"(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|(?:02)-(?:0[1-9]|1\d|2[0-8])))")
TIME = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d+)?)?"
BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])"
ZOD_TEXTS = {
    "email": {"format": "email", "pattern": r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"},
    "uuid": {"format": "uuid", "pattern": r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}|"
                                          r"00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"},
    "uuid v4": {"format": "uuid", "pattern": r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$"},
    "date": {"format": "date", "pattern": f"^{DATE}$"},
    "datetime": {"format": "date-time", "pattern": f"^{DATE}T(?:{TIME}(?:Z))$"},
    "datetime with offset": {"format": "date-time", "pattern": f"^{DATE}T(?:{TIME}(?:Z|([+-](?:[01]\\d|2[0-3]):[0-5]\\d)))$"},
    "time": {"format": "time", "pattern": f"^{TIME}$"},
    "duration": {"format": "duration", "pattern": r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$"},
    "ipv4": {"format": "ipv4", "pattern": f"^(?:{BYTE}\\.){{3}}{BYTE}$"},
    "cidr": {"format": "cidrv4", "pattern": f"^((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9][0-9]|[0-9])\\.){{3}}{BYTE}\\/([0-9]|[1-2][0-9]|3[0-2])$"},
    "url": {"format": "uri"},
    "hostname": {"format": "hostname", "pattern": r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$"},
    "base64": {"format": "base64", "contentEncoding": "base64", "pattern": r"^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$"},
    "base64url": {"format": "base64url", "contentEncoding": "base64url", "pattern": r"^[A-Za-z0-9_-]*$"},
    "nanoid": {"format": "nanoid", "pattern": r"^[a-zA-Z0-9_-]{21}$"},
    "cuid": {"format": "cuid", "pattern": r"^[cC][^\s-]{8,}$"},
    "cuid2": {"format": "cuid2", "pattern": r"^[0-9a-z]+$"},
    "ulid": {"format": "ulid", "pattern": r"^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$"},
    "ksuid": {"format": "ksuid", "pattern": r"^[A-Za-z0-9]{27}$"},
    "e164": {"format": "e164", "pattern": r"^\+(?:[0-9]){6,14}[0-9]$"},
    "jwt": {"format": "jwt"},
    "starts with": {"pattern": "^https:\\/\\/.*"},
    "includes": {"pattern": "needle"},
    "ends with": {"pattern": ".*\\.png$"},
    "lower case": {"pattern": "^[^A-Z]*$"},
    "upper case": {"format": "uppercase", "pattern": "^[^a-z]*$"},
    "two patterns": {"allOf": [{"pattern": "^[a-z]"}, {"pattern": "[0-9]$"}]},
    "min": {"minLength": 3}, "max": {"maxLength": 500}, "min max": {"minLength": 1, "maxLength": 1000}, "length": {"minLength": 8, "maxLength": 8},
    "email to 100": {"format": "email", "maxLength": 100}, "regex and max": {"pattern": "^[\\w .,-]+$", "maxLength": 600}, "trimmed": {"minLength": 1, "maxLength": 2000},
}
ZOD = {
    "string": {"type": "string"}, "number": {"type": "number"}, "int": INT, "boolean": {"type": "boolean"}, "null": {"type": "null"}, "any": {},
    "int32": {"type": "integer", "minimum": -2147483648, "maximum": 2147483647}, "uint32": {"type": "integer", "minimum": 0, "maximum": 4294967295},
    "int64": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807},
    "float32": {"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38},
    "positive": {"type": "number", "exclusiveMinimum": 0}, "positive int": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
    "int to 10": {"type": "integer", "minimum": 1, "maximum": 10}, "multiple of 5": {"type": "number", "multipleOf": 5}, "step 0.1": {"type": "number", "multipleOf": 0.1},
    "step 0.01": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1000}, "int step": {**INT, "multipleOf": 3},
    "enum": {"type": "string", "enum": ["a", "b", "c"]}, "literal": {"type": "string", "const": "only"}, "number literal": {"type": "number", "const": 42},
    "literals": {"enum": ["x", 1, True, None]}, "nullable": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "union": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    "array": {"type": "array", "items": {"type": "string"}}, "array 1 to 5": {"minItems": 1, "maxItems": 5, "type": "array", "items": INT},
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
    "tuple with rest": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "boolean"}},
    "record": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "number"}},
    "record by enum": {"type": "object", "propertyNames": {"type": "string", "enum": ["a", "b"]}, "additionalProperties": INT, "required": ["a", "b"]},
    "partial record": {"type": "object", "propertyNames": {"type": "string", "enum": ["a", "b", "ab"]}, "additionalProperties": INT},
    "record by pattern": {"type": "object", "propertyNames": {"type": "string", "pattern": "^[a-z]{1,8}$"}, "additionalProperties": {"type": "boolean"}},
    "record by uuid": {"type": "object", "propertyNames": {"type": "string", **ZOD_TEXTS["uuid"]}, "additionalProperties": {}},
    "default": {"default": "x", "type": "string"}, "readonly": {"readOnly": True, "type": "array", "items": {"type": "number"}},
    "described": {"description": "A thing", "examples": ["x"], "type": "string"}, "file size": {"type": "integer", "minimum": 0, "maximum": 9007199254740991},
}


def zod_object(properties, required=None, **more):
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties,
            "required": list(properties) if required is None else required, "additionalProperties": False, **more}


def zod_schemas():
    for name, rule in ZOD_TEXTS.items():
        add("zod", f"text {name}", zod_object({"value": {"type": "string", **rule}}))
    for name, rule in ZOD.items():
        add("zod", name, zod_object({"value": rule}))
    shapes = {
        "optional": zod_object({"a": {"type": "string"}, "b": INT}, ["a"]),
        "all optional": zod_object({"a": {"type": "string"}, "b": INT, "c": {"type": "boolean"}}, []),
        "nested": zod_object({"user": {k: v for k, v in zod_object({"name": {"type": "string"}, "age": INT}).items() if k != "$schema"}}),
        "loose": {"type": "object", "properties": {"a": INT}, "required": ["a"], "additionalProperties": {}},
        "catchall": {"type": "object", "properties": {"a": INT}, "required": ["a"], "additionalProperties": {"type": "string"}},
        "discriminated": zod_object({"shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"], "additionalProperties": False},
            {"type": "object", "properties": {"kind": {"type": "string", "const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"], "additionalProperties": False}]}}),
        "intersection": {"allOf": [{"type": "object", "properties": {"a": INT}, "required": ["a"]}, {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}]},
        "recursive": zod_object({"value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}),
        "recursive by $defs": {"$ref": "#/$defs/__schema0", "$defs": {"__schema0": {"type": "object", "properties": {
            "name": {"type": "string"}, "next": {"anyOf": [{"$ref": "#/$defs/__schema0"}, {"type": "null"}]}}, "required": ["name", "next"], "additionalProperties": False}}},
        "ids": zod_object({"user": {"$ref": "#/$defs/User"}}, **{"$defs": {"User": {"id": "User", "type": "object", "properties": {"id": ZOD["int"]}, "required": ["id"]}}}),
        "never": zod_object({"a": INT, "b": {"not": {}}}, ["a"]),
        "json": {"$ref": "#/$defs/json", "$defs": {"json": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"},
            {"type": "array", "items": {"$ref": "#/$defs/json"}}, {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"$ref": "#/$defs/json"}}]}}},
        "form": zod_object({"name": {"type": "string", "minLength": 1, "maxLength": 100}, "email": {"type": "string", **ZOD_TEXTS["email"]},
                            "age": {"type": "integer", "minimum": 18, "maximum": 120}, "site": {"type": "string", "format": "uri"}, "bio": {"type": "string", "maxLength": 5000}}, ["name", "email"]),
        "page": zod_object({"items": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "string", **ZOD_TEXTS["uuid"]}, "at": {"type": "string", **ZOD_TEXTS["datetime"]}},
                            "required": ["id", "at"], "additionalProperties": False}, "maxItems": 50}, "next": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "total": ZOD["file size"]}),
    }
    for name, schema in shapes.items():
        add("zod", f"object {name}", schema)


# ---- tool servers (MCP) ---------------------------------------------------------------------------------------------

def tool(properties, required=(), **more):
    return {"type": "object", "properties": properties, "required": list(required), **more}


def text(description, **more):
    return {"type": "string", "description": description, **more}


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
TOOLS = {
    "read_file": tool({"path": text("Path"), "head": {"type": "number", "description": "First lines"}, "tail": {"type": "number"}}, ["path"], additionalProperties=False, **DRAFT_7),
    "read_many": tool({"paths": {"type": "array", "items": {"type": "string"}, "minItems": 1}}, ["paths"], additionalProperties=False, **DRAFT_7),
    "write_file": tool({"path": text("Path"), "content": text("All of it")}, ["path", "content"], additionalProperties=False, **DRAFT_7),
    "edit_file": tool({"path": text("Path"), "edits": {"type": "array", "items": tool({"oldText": text("Old"), "newText": text("New")}, ["oldText", "newText"], additionalProperties=False)},
                       "dryRun": {"type": "boolean", "default": False}}, ["path", "edits"], additionalProperties=False, **DRAFT_7),
    "directory_tree": tool({"path": text("Path"), "excludePatterns": {"type": "array", "items": {"type": "string"}, "default": []}}, ["path"], **DRAFT_7),
    "list_sorted": tool({"path": text("Path"), "sortBy": {"type": "string", "enum": ["name", "size"], "default": "name"}}, ["path"]),
    "no arguments": {"type": "object"}, "no arguments, closed": {"type": "object", "properties": {}, "additionalProperties": False},
    "fetch": tool({"url": text("URL", format="uri", minLength=1), "max_length": {"type": "integer", "default": 5000, "exclusiveMinimum": 0, "exclusiveMaximum": 1000000},
                   "start_index": {"type": "integer", "default": 0, "minimum": 0}, "raw": {"type": "boolean", "default": False}}, ["url"], title="Fetch"),
    "search": tool({"query": text("Words", minLength=1, maxLength=400), "count": {"type": "number", "minimum": 1, "maximum": 20, "default": 10}, "offset": {"type": "integer", "minimum": 0, "maximum": 9}}, ["query"]),
    "create_issue": tool({"owner": text("Owner"), "repo": text("Repository"), "title": text("Title", maxLength=256), "body": text("Text", maxLength=65536),
                          "labels": {"type": "array", "items": {"type": "string"}}, "assignees": {"type": "array", "items": {"type": "string"}, "maxItems": 10, "uniqueItems": True}, "milestone": {"type": "number"}}, ["owner", "repo", "title"]),
    "list_pulls": tool({"owner": text("Owner"), "state": {"type": "string", "enum": ["open", "closed", "all"]}, "sort": {"type": "string", "enum": ["created", "updated", "popularity", "long-running"]},
                        "perPage": {"type": "number", "minimum": 1, "maximum": 100}, "page": {"type": "number", "minimum": 1}}, ["owner"]),
    "push_files": tool({"branch": text("Branch"), "files": {"type": "array", "items": tool({"path": text("Path"), "content": text("Content")}, ["path", "content"])}, "message": text("Message")}, ["branch", "files", "message"]),
    "query": tool({"sql": text("A SELECT", pattern="^\\s*[Ss][Ee][Ll][Ee][Cc][Tt]\\b?.*".replace("\\b?", "")), "params": {"type": "array", "items": {"type": ["string", "number", "boolean", "null"]}}}, ["sql"]),
    "create_table": tool({"query": text("SQL", maxLength=10000)}, ["query"]),
    "post_message": tool({"channel_id": text("Channel", pattern="^[CDG][A-Z0-9]{8,10}$"), "text": text("Text", maxLength=40000), "thread_ts": text("Thread", pattern="^\\d{10}\\.\\d{6}$")}, ["channel_id", "text"]),
    "weather": tool({"location": text("Place"), "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}}, ["location"]),
    "coordinates": tool({"latitude": {"type": "number", "minimum": -90, "maximum": 90}, "longitude": {"type": "number", "minimum": -180, "maximum": 180}}, ["latitude", "longitude"]),
    "calendar": tool({"start": text("Start", format="date-time"), "end": text("End", format="date-time"), "attendees": {"type": "array", "items": {"type": "string", "format": "email"}, "maxItems": 50},
                      "reminders": {"type": "array", "items": tool({"method": {"type": "string", "enum": ["email", "popup"]}, "minutes": {"type": "integer", "minimum": 0, "maximum": 40320}}, ["method", "minutes"])}}, ["start", "end"]),
    "send_mail": tool({"to": {"anyOf": [{"type": "string", "format": "email"}, {"type": "array", "items": {"type": "string", "format": "email"}, "minItems": 1}]}, "subject": text("Subject", maxLength=998), "html": {"type": "boolean"}}, ["to", "subject"]),
    "knowledge": tool({"entities": {"type": "array", "items": tool({"name": text("Name"), "entityType": text("Type"), "observations": {"type": "array", "items": {"type": "string"}}}, ["name", "entityType", "observations"])}}, ["entities"]),
    "thinking": tool({"thought": text("Thought"), "nextThoughtNeeded": {"type": "boolean"}, "thoughtNumber": {"type": "integer", "minimum": 1}, "totalThoughts": {"type": "integer", "minimum": 1}, "isRevision": {"type": "boolean"}}, ["thought", "nextThoughtNeeded", "thoughtNumber", "totalThoughts"]),
    "navigate": tool({"url": text("URL"), "launchOptions": {"type": "object", "description": "Options", "default": None}, "allowDangerous": {"type": "boolean"}}, ["url"]),
    "click": tool({"selector": text("CSS"), "button": {"enum": ["left", "right", "middle"]}, "count": {"type": "integer", "enum": [1, 2, 3]}}, ["selector"]),
    "viewport": tool({"width": {"type": "integer", "minimum": 1, "maximum": 10000}, "height": {"type": "integer", "minimum": 1, "maximum": 10000}, "scale": {"type": "number", "minimum": 0.25, "maximum": 4}}, ["width", "height"]),
    "headers": tool({"url": text("URL"), "headers": {"type": "object", "additionalProperties": {"type": "string"}}, "method": {"type": "string", "enum": ["GET", "POST", "PUT", "DELETE"]}, "body": {}}, ["url"]),
    "filter": tool({"where": {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "object", "properties": {"$gt": {"type": "number"}, "$in": {"type": "array", "items": {"type": "string"}}}}]}}}, ["where"]),
    "env": tool({"env": {"type": "object", "patternProperties": {"^[A-Z_][A-Z0-9_]*$": {"type": "string"}}, "additionalProperties": False}}, ["env"]),
    "labels": tool({"labels": {"type": "object", "propertyNames": {"pattern": "^[a-z0-9-]{1,63}$"}, "additionalProperties": {"type": "string", "maxLength": 63}, "maxProperties": 64}}),
    "version": tool({"version": text("Semver", pattern="^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*)?$")}, ["version"]),
    "draft 4": {"$schema": "http://json-schema.org/draft-04/schema#", "id": "x", **tool({"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 10}}, ["n"])},
    "nullable list": tool({"tags": {"type": ["array", "null"], "items": {"type": "string"}}, "limit": {"type": ["integer", "null"], "minimum": 1}}, ["tags"]),
    "definitions": tool({"a": {"$ref": "#/definitions/A"}, "b": {"type": "array", "items": {"$ref": "#/definitions/A"}}}, ["a"], definitions={"A": tool({"x": {"type": "integer"}}, ["x"])}),
    "required without properties": {"type": "object", "required": ["query"]},
    "jira": tool({"fields": tool({"project": tool({"key": text("Key", pattern="^[A-Z]{2,10}$")}, ["key"]), "summary": text("Summary", maxLength=255), "issuetype": tool({"name": {"enum": ["Bug", "Task", "Story"]}}, ["name"])}, ["project", "summary", "issuetype"])}, ["fields"]),
    "const version": tool({"jsonrpc": {"const": "2.0"}, "id": {"type": ["string", "integer"]}, "method": text("Method"), "params": {"type": "object"}}, ["jsonrpc", "id", "method"]),
}


def tool_schemas():
    for name, schema in TOOLS.items():
        add("mcp", name, schema)
    # Calls in the form that `tool_choice: required` asks for.
    for number in (2, 5, 12, 40):
        named = list(TOOLS.items())[:number]
        calls = [tool({"name": {"const": name}, "parameters": {"type": "object", "properties": schema.get("properties", {}), "required": schema.get("required", [])}}, ["name", "parameters"])
                 for name, schema in named if "definitions" not in schema]
        add("mcp", f"{number} tools", {"type": "array", "minItems": 1, "items": {"anyOf": calls}})
    seven = {f"argument_{i}": {"type": ["string", "integer", "number", "boolean"][i % 4]} for i in range(7)}
    add("mcp", "forty tools of seven", {"type": "array", "minItems": 1, "maxItems": 1, "items": {"anyOf": [
        tool({"name": {"const": f"tool_{i}"}, "parameters": tool(seven, list(seven)[:3])}, ["name", "parameters"]) for i in range(40)]}})


# ---- OpenAI's structured outputs ------------------------------------------------------------------------------------

def strict(properties, **more):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False, **more}


STRING, NUMBER, BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
OPENAI = {
    "steps": strict({"steps": {"type": "array", "items": strict({"explanation": STRING, "output": STRING})}, "final_answer": STRING}),
    "paper": strict({"title": STRING, "authors": {"type": "array", "items": STRING}, "abstract": STRING, "keywords": {"type": "array", "items": STRING}}),
    "interface": strict({"type": {"type": "string", "description": "Kind", "enum": ["div", "button", "header", "section", "field", "form"]}, "label": STRING,
                         "children": {"type": "array", "items": {"$ref": "#"}}, "attributes": {"type": "array", "items": strict({"name": STRING, "value": STRING})}}),
    "moderation": strict({"is_violating": BOOLEAN, "category": {"type": ["string", "null"], "enum": ["violence", "sexual", "self_harm", None]}, "explanation_if_violating": {"type": ["string", "null"]}}),
    "list": strict({"linked_list": {"$ref": "#/$defs/node"}}, **{"$defs": {"node": strict({"value": NUMBER, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}})}}),
    "definitions": strict({"steps": {"type": "array", "items": {"$ref": "#/$defs/step"}}, "final_answer": STRING}, **{"$defs": {"step": strict({"explanation": STRING, "output": STRING})}}),
    "any of": strict({"item": {"anyOf": [strict({"name": STRING, "age": NUMBER}), strict({"number": STRING, "street": STRING, "city": STRING})]}}),
    "text limits": strict({"name": STRING, "username": {"type": "string", "pattern": "^@[a-zA-Z0-9_]+$"}, "email": {"type": "string", "format": "email"}}),
    "number limits": strict({"location": STRING, "unit": {"type": ["string", "null"], "enum": ["F", "C", None]}, "value": {"type": "number", "minimum": -130, "maximum": 130}}),
    "multiple": strict({"amount": {"type": "number", "multipleOf": 0.01, "minimum": 0}, "count": {"type": "integer", "multipleOf": 12, "exclusiveMaximum": 1000}}),
    "items": strict({"tags": {"type": "array", "items": STRING, "minItems": 1, "maxItems": 8}}),
    "formats": strict({f: {"type": "string", "format": f} for f in ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")}),
    "nullable object": strict({"user": {"anyOf": [strict({"id": {"type": "integer"}}), {"type": "null"}]}}),
    "deep": strict({"a": strict({"b": strict({"c": strict({"d": strict({"e": STRING})})})})}),
    "keys": strict({"snake_case": STRING, "kebab-case": STRING, "with space": STRING, "ünïcode": STRING, "$dollar": STRING, "quote\"d": STRING, "back\\slash": STRING}),
    "enum of 1000": strict({"code": {"type": "string", "enum": [f"C{i:04d}" for i in range(1000)]}}),
    "enum of 5000": strict({"code": {"type": "string", "enum": [f"code-{i * 7919 % 100003}" for i in range(5000)]}}),
    "300 properties": strict({f"property_{i}": [STRING, NUMBER, BOOLEAN][i % 3] for i in range(300)}),
    "5000 properties": strict({f"group_{g}": strict({f"p{i}": BOOLEAN for i in range(50)}) for g in range(100)}),
    "integer enum": strict({"n": {"type": "integer", "enum": [1, 2, 3, 10, 20]}}), "mixed enum": strict({"n": {"enum": [1, "1", None, True, 1.5]}}),
    "const": strict({"kind": {"const": "fixed"}, "version": {"const": 2}}), "ref siblings": strict({"a": {"$ref": "#/$defs/A", "description": "beside"}}, **{"$defs": {"A": STRING}}),
    "ref limits": strict({"a": {"$ref": "#/$defs/A", "maxLength": 20}}, **{"$defs": {"A": {"type": "string", "minLength": 2}}}),
    "ref escapes": strict({"a": {"$ref": "#/$defs/A%20B"}, "b": {"$ref": "#/$defs/x~1y"}}, **{"$defs": {"A B": STRING, "x/y": NUMBER}}),
    "anchor": strict({"a": {"$ref": "#thing"}}, **{"$defs": {"t": {"$anchor": "thing", **STRING}}}),
    "id": strict({"a": {"$ref": "thing.json"}}, **{"$id": "https://example.com/root.json", "$defs": {"t": {"$id": "thing.json", **NUMBER}}}),
    "deep ref": strict({"a": {"$ref": "#/$defs/outer/properties/inner"}}, **{"$defs": {"outer": {"type": "object", "properties": {"inner": strict({"x": NUMBER})}}}}),
}
for length in (100, 255, 500, 512, 1000, 1024, 2000, 4000, 4096, 5000, 10000, 32768, 65536):
    OPENAI[f"text to {length}"] = strict({"text": {"type": "string", "maxLength": length}})
for least, most in ((1, 255), (10, 500), (100, 1000), (500, 500), (1000, 65536)):
    OPENAI[f"text of {least} to {most}"] = strict({"text": {"type": "string", "minLength": least, "maxLength": most}})
for items in (100, 1000, 10000):
    OPENAI[f"list to {items}"] = strict({"list": {"type": "array", "items": {"type": "integer"}, "maxItems": items}})

# ---- rarer conditions ----

RARE = {
    "pattern counted": strict({"v": {"type": "string", "pattern": "^[a-z ]{1,5000}$"}}), "pattern counted, with ends": strict({"v": {"type": "string", "pattern": "^a[^\\n]{1,1000}z$"}}),
    "pattern and length": strict({"v": {"type": "string", "pattern": "^[^<>]*$", "maxLength": 8000}}), "words to 1000": strict({"v": {"type": "string", "pattern": "^\\S+( \\S+)*$", "maxLength": 1000}}),
    "letters": strict({"v": {"type": "string", "pattern": "^[\\p{L} ]+$"}}), "upper case letter": strict({"v": {"type": "string", "pattern": "^\\p{Lu}\\p{Ll}+$"}}),
    "look-ahead": strict({"v": {"type": "string", "pattern": "^(?=.*[a-z])(?=.*\\d)[a-z\\d]{8,}$"}}), "no double dash": strict({"v": {"type": "string", "pattern": "^(?!.*--)[a-z-]+$"}}),
    "password": strict({"v": {"type": "string", "pattern": "^(?=.*[A-Z])(?=.*[a-z])(?=.*[0-9]).{8,64}$"}}),
    "unique": strict({"v": {"type": "array", "items": STRING, "uniqueItems": True}}), "unique enums": strict({"v": {"type": "array", "items": {"enum": ["a", "b", "ab"]}, "uniqueItems": True}}),
    "unique short": strict({"v": {"type": "array", "items": {"type": "string", "maxLength": 4}, "uniqueItems": True, "maxItems": 6}}),
    "unique integers": strict({"v": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}}), "unique booleans": strict({"v": {"type": "array", "items": BOOLEAN, "uniqueItems": True, "minItems": 2}}),
    "unique objects": strict({"v": {"type": "array", "items": strict({"k": STRING, "n": {"type": "integer"}}), "uniqueItems": True}}),
    "not a constant": strict({"v": {"type": "string", "not": {"const": "forbidden"}}}), "not an enum": strict({"v": {"type": "string", "not": {"enum": ["a", "b"]}}}),
    "not a type": strict({"v": {"not": {"type": "string"}}}), "not a pattern": strict({"v": {"type": "string", "not": {"pattern": "^_"}}}), "not required": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "not": {"required": ["a", "b"]}},
    "not null": strict({"v": {"not": {"type": "null"}}}), "not a number": strict({"v": {"type": "integer", "minimum": 0, "not": {"const": 7}}}),
    "if": {"type": "object", "properties": {"country": {"enum": ["US", "NL"]}, "zip": STRING}, "required": ["country", "zip"],
           "if": {"properties": {"country": {"const": "US"}}}, "then": {"properties": {"zip": {"pattern": "^[0-9]{5}$"}}}, "else": {"properties": {"zip": {"pattern": "^[0-9]{4} [A-Z]{2}$"}}}},
    "if required": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "if": {"required": ["a"]}, "then": {"required": ["b"]}},
    "if on a text": {"type": "object", "properties": {"kind": STRING, "size": NUMBER}, "required": ["kind"], "if": {"properties": {"kind": {"const": "box"}}}, "then": {"required": ["size"]}},
    "dependent": {"type": "object", "properties": {"card": STRING, "address": STRING}, "dependentRequired": {"card": ["address"]}},
    "dependencies": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER, "c": NUMBER}, "dependencies": {"a": ["b"], "b": {"required": ["c"]}}},
    "dependent schemas": {"type": "object", "properties": {"a": NUMBER, "b": STRING}, "dependentSchemas": {"a": {"properties": {"b": {"maxLength": 3}}, "required": ["b"]}}},
    "contains": strict({"v": {"type": "array", "items": {"type": "integer"}, "contains": {"const": 5}, "maxItems": 6}}), "contains 2 to 3": strict({"v": {"type": "array", "items": {"enum": [1, 2, 3]}, "contains": {"const": 1}, "minContains": 2, "maxContains": 3, "maxItems": 6}}),
    "min properties": {"type": "object", "additionalProperties": NUMBER, "minProperties": 2, "maxProperties": 5}, "one of three": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER, "c": NUMBER}, "minProperties": 1, "maxProperties": 1, "additionalProperties": False},
    "properties and patterns": {"type": "object", "properties": {"id": NUMBER}, "required": ["id"], "patternProperties": {"^x-": STRING}, "additionalProperties": False},
    "two patterns": {"type": "object", "patternProperties": {"^n_": NUMBER, "^s_": STRING}, "additionalProperties": False},
    "one of, overlapping": strict({"v": {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "string", "minLength": 3}]}}), "one of numbers": strict({"v": {"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 10}]}}),
    "all of numbers": strict({"v": {"allOf": [{"type": "number", "minimum": 1}, {"maximum": 2}, {"multipleOf": 0.25}]}}), "all of texts": strict({"v": {"allOf": [{"type": "string", "minLength": 2}, {"pattern": "^[a-f]+$"}, {"maxLength": 12}]}}),
    "all of closed": {"allOf": [{"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}, {"type": "object", "properties": {"a": {"minimum": 0}, "b": STRING}}], "unevaluatedProperties": False},
    "tuple closed": strict({"v": {"type": "array", "prefixItems": [STRING, NUMBER], "items": False, "minItems": 2}}), "draft 7 tuple": strict({"v": {"type": "array", "items": [STRING, NUMBER], "additionalItems": BOOLEAN}}),
    "multiple of 7": strict({"v": {"type": "integer", "multipleOf": 7, "minimum": -100, "maximum": 100}}), "multiple of 2.5": strict({"v": {"type": "number", "multipleOf": 2.5}}), "multiple of 1000": strict({"v": {"type": "integer", "multipleOf": 1000}}),
    "small interval": strict({"v": {"type": "number", "exclusiveMinimum": 0.0000002, "exclusiveMaximum": 0.0000009}}), "big interval": strict({"v": {"type": "integer", "minimum": 10 ** 17, "maximum": 10 ** 18}}),
    "unsigned 64": strict({"v": {"type": "integer", "minimum": 0, "maximum": 18446744073709551615}}), "float bounds": strict({"v": {"type": "number", "minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308}}),
    "enum of objects": strict({"v": {"enum": [{"a": 1}, {"b": [1, 2]}, []]}}), "null only": strict({"v": {"type": "null"}}), "true": strict({"v": True}), "nested any of": strict({"v": {"anyOf": [{"anyOf": [STRING, NUMBER]}, {"type": "null"}]}}),
    "geojson": {"type": "object", "properties": {"type": {"const": "Point"}, "coordinates": {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 3}}, "required": ["type", "coordinates"]},
    "cron": strict({"v": {"type": "string", "pattern": "^(\\*|[0-5]?\\d)( (\\*|[0-9]{1,2})){4}$"}}), "hex colour": strict({"v": {"type": "string", "pattern": "^#(?:[0-9a-fA-F]{3}){1,2}$"}}), "isbn": strict({"v": {"type": "string", "pattern": "^(97[89])?\\d{9}(\\d|X)$"}}),
    "iban": strict({"v": {"type": "string", "pattern": "^[A-Z]{2}\\d{2}[A-Z0-9]{11,30}$"}}), "path": strict({"v": {"type": "string", "pattern": "^(/[^/\\x00]+)+/?$", "maxLength": 4096}}), "one line": strict({"v": {"type": "string", "pattern": "^[^\\r\\n]*$", "maxLength": 1000}}),
}


def main():
    pydantic_models()
    zod_schemas()
    tool_schemas()
    for name, schema in OPENAI.items():
        add("openai", name, schema)
    for name, schema in RARE.items():
        add("rare", name, schema)
    for line in LINES:
        print(json.dumps(line, ensure_ascii=False, separators=(",", ":")))


if __name__ == "__main__":
    main()
