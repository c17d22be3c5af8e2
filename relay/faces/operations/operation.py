"""One operation: its declaration, and how every door runs it.

Invariant: a request is checked before it runs, nothing in it is bent into shape (`"1"` is not 1), null is as good as
left out, and no field is unknown. What was not done is a `Refusal`, whichever door asked.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from relay.config.command_line import command
from relay.faces.operations.json_schema import input_schema
from relay.faces.ports import Services
from relay.model import ADMIN, Caller, Fault, Refusal

Json = dict[str, Any]

#: Levels of nesting in a request's free data: far more than anybody writes, far less than a parser's stack.
_MOST_NESTED = 64
#: The most that a counter of the database holds (SQLite and PostgreSQL: a signed number of 64 bits).
_MOST_WHOLE = 2**63 - 1


def storable(text: str) -> str:
    """The text, when a database keeps it."""
    if "\0" in text:
        raise ValueError("it has a NUL character, which a database cannot store")
    return text


def _plain(value: Any) -> Any:
    """A JSON value that can be written again as JSON in UTF-8."""
    waiting = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if depth > _MOST_NESTED:
            raise ValueError(f"it is nested more than {_MOST_NESTED} levels deep")
        if isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError:
                raise ValueError("it has an unpaired surrogate") from None
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError("it has a number that JSON does not allow")
        elif isinstance(one, Mapping):
            waiting += [(part, depth + 1) for pair in one.items() for part in pair]
        elif isinstance(one, list | tuple):
            waiting += [(part, depth + 1) for part in one]
    return value


#: A text that says something, with no NUL in it.
Text = Annotated[str, Field(min_length=1), AfterValidator(storable)]
#: A path, pattern or id: what it means is the wing's to say. 4096 is the most of a path on Linux (PATH_MAX).
Name = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(storable)]
#: Any JSON value.
Data = Annotated[Any, AfterValidator(_plain)]
Token = Annotated[int, Field(ge=0, le=_MOST_WHOLE)]
#: Lists of a request: a plan names hundreds of files, not thousands.
Names = Annotated[list[Name], Field(max_length=1000)]


class Request(BaseModel):
    """What an operation is asked. `exactly_one` of these fields is said, where it names any."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    exactly_one: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _null_is_left_out(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            return {name: value for name, value in values.items() if value is not None}
        return values

    @model_validator(mode="after")
    def _says_one(self) -> Self:
        if self.exactly_one:
            one_of(self, *self.exactly_one)
        return self


class Problem(BaseModel):
    """Why something was not done."""

    code: str
    message: str
    fix: str


class Answer(BaseModel):
    """What every answer has; it may carry more fields than are declared."""

    model_config = ConfigDict(extra="allow")

    success: bool
    reason: str | None = Field(None, description="code, where success is false")
    message: str | None = None
    fix: str | None = Field(None, description="what would make it succeed")
    error: Problem | None = None


class Shown(BaseModel):
    """One of a list; it may carry more fields than are declared."""

    model_config = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation.

    `request` and `result` are pydantic models (a result may be a list of them: `result_list`); `scope` one of
    `relay.model.SCOPES`, ADMIN, or "" (any good key); `method` and `path` its HTTP endpoint, `aliases` further
    (method, path) pairs; `tool` whether MCP lists it; `read_only`: it changes nothing. `beats`: its own
    transaction is the heartbeat of the caller's session. `status`: of a good answer on HTTP. `doc`: the first line
    is a summary, for models and people.
    """

    name: str
    request: type[Request]
    result: type[BaseModel]
    scope: str
    run: Callable[[Services, Caller, Any], Awaitable[Any]]
    method: str
    path: str
    doc: str
    aliases: tuple[tuple[str, str], ...] = ()
    tool: bool = False
    result_list: bool = False
    read_only: bool = False
    beats: bool = False
    tag: str = "more"

    @property
    def endpoints(self) -> tuple[tuple[str, str], ...]:
        """Every (method, path) of it."""
        return ((self.method, self.path), *self.aliases)


async def perform(services: Services, caller: Caller, operation: Operation, values: Mapping[str, Any]) -> Any:
    """Run an operation for a caller with what it was sent; a JSON value. Raises Refusal."""
    need(caller, operation.scope)
    request = read(operation, values)
    if not operation.beats:
        await services.sessions.touch(caller)
    return await operation.run(services, caller, request)


def need(caller: Caller, scope: str) -> None:
    """Raises Refusal when the caller's key does not allow this."""
    if not scope or scope in caller.scopes:
        return
    if scope == ADMIN:
        fix = "A person can do this, with the room's token, in the page or with `relay`."
    else:
        typed = command(f"keys create {caller.agent} --scopes {scope},...")
        fix = f"Ask for a key with it: {typed}."
    message = f"{caller.agent}'s key does not allow this: it lacks the scope {scope!r}."
    raise Refusal(message, fix, Fault.FORBIDDEN, "scope", details={"scope": scope})


def read(operation: Operation, values: Mapping[str, Any]) -> Request:
    """The request that these values are. Raises Refusal, which names the field and what it should be."""
    try:
        return operation.request.model_validate(values)
    except ValidationError as error:
        raise malformed(operation.request, error.errors(include_url=False)) from None


def malformed(model: type[BaseModel], faults: list[ErrorDetails]) -> Refusal:
    """The answer to a request that is none, in words: its first fault, and all of their places."""
    first = faults[0]
    field = _place(first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) or "none"
        message, fix = f"Unknown field {field[:60]!r}.", f"Known: {known}."
    elif first["type"] == "missing":
        message, fix = f"{field} is missing.", _about(model, first["loc"])
    else:
        text = _said(first)
        message = (
            f"{field[:60]}: {text.rstrip('.')}." if field else f"{text[:1].upper()}{text[1:].rstrip('.')}."
        )
        fix = _wanted(model, first["loc"]) or _about(model, first["loc"])
    places = [_place(fault["loc"])[:60] for fault in faults if fault["loc"]]
    return Refusal(message, fix, Fault.MALFORMED, details={"fields": places[:20]})


def _said(fault: ErrorDetails) -> str:
    """What is wrong with a value. The library calls the characters of a text items, and speaks of its own passes."""
    bounds = fault.get("ctx") or {}
    if fault["type"] in ("too_long", "too_short", "string_too_long", "string_too_short"):
        what = "characters" if isinstance(fault["input"], str) else "entries"
        low, high = bounds.get("min_length"), bounds.get("max_length")
        allowed = f"at least {low:,}" if high is None else f"at most {high:,}"
        return f"it has {len(fault['input']):,} {what}; {allowed}"
    text = fault["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _place(path: tuple[int | str, ...]) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).lstrip(".")


def _about(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """What a field is for, as its declaration says."""
    field = model.model_fields.get(str(path[0])) if path else None
    if field is None or not field.description:
        known = ", ".join(model.model_fields)
        return f"Fields: {known}." if known else "Send an empty object."
    return f"{path[0]}: {field.description}."


_KINDS = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}


def _wanted(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """What to give in a field, by its schema; empty where that says nothing."""
    known = input_schema(model)["properties"].get(str(path[0])) if path else None
    said = _in_words(known or {})
    return f"{path[0]}: {said}." if said else ""


def _in_words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(map(str, schema.get('enum') or [schema['const']]))}"
    if schema.get("type") == "array":
        most = f", at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"a list, each entry {_in_words(schema.get('items') or {}) or 'a value'}{most}"
    said = _KINDS.get(str(schema.get("type")), "")
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if said and low is not None:
        said += f" from {low:,g}" + (f" to {high:,g}" if high is not None and high < 1e9 else " on")
    if "maxLength" in schema:
        low, high = schema.get("minLength", 0), schema["maxLength"]
        said += f" of {low:,} to {high:,} characters"
    return said


def one_of(request: Request, *fields: str) -> None:
    """Raises ValueError unless exactly one of these fields was said."""
    said = [field for field in fields if getattr(request, field) is not None]
    if len(said) != 1:
        raise ValueError(f"give one of {' or '.join(fields)}, not {'both' if said else 'neither'}")
