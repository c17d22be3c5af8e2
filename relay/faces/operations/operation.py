"""One operation: its declaration, and how every interface runs it.

Invariant: a request is checked before it runs. No value is converted (`"1"` is not 1), null is the same as a field
that is left out, and unknown fields are refused. What was not done is a `Refusal`, on every interface.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from relay.config.command_line import command
from relay.faces.operations.json_schema import input_schema
from relay.faces.services import Services
from relay.model import ADMIN, Caller, Fault, Refusal

Json = dict[str, Any]
#: Takes a sentence on how the call waits, each time that it changes. An interface that can send progress sets it; a
#: call without it waits the same.
HEARD: ContextVar[Callable[[str], None] | None] = ContextVar("relay_wait_heard", default=None)

#: Levels of nesting in a request's free data: far more than anybody writes, far less than a parser's stack.
_MOST_NESTED = 64
#: The most that a counter of the database holds (SQLite and PostgreSQL: a signed number of 64 bits).
_MOST_WHOLE = 2**63 - 1


def storable(text: str) -> str:
    """The text unchanged. Raises ValueError when a database cannot store it."""
    if "\0" in text:
        raise ValueError("it has a NUL character, which a database cannot store")
    return text


def _plain(value: Any) -> Any:
    """The value unchanged. Raises ValueError when it cannot be written as JSON in UTF-8."""
    stack = [(value, 0)]
    while stack:
        part, depth = stack.pop()
        if depth > _MOST_NESTED:
            raise ValueError(f"it is nested more than {_MOST_NESTED} levels deep")
        if isinstance(part, str):
            try:
                part.encode()
            except UnicodeEncodeError:
                raise ValueError("it has an unpaired surrogate") from None
        elif isinstance(part, float) and not math.isfinite(part):
            raise ValueError("it has a number that JSON does not allow")
        elif isinstance(part, Mapping):
            stack += [(inner, depth + 1) for pair in part.items() for inner in pair]
        elif isinstance(part, list | tuple):
            stack += [(inner, depth + 1) for inner in part]
    return value


#: A text that is not empty and has no NUL.
Text = Annotated[str, Field(min_length=1), AfterValidator(storable)]
#: A path, pattern or id; the wing that gets it says what it means. 4096 is the most of a path on Linux (PATH_MAX).
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


#: The function that carries an operation out. Gives a JSON value; raises Refusal.
Run = Callable[[Services, Caller, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """One declared operation: the function that carries it out, and how the interfaces show it.

    `method` and `path` are its HTTP endpoint, `aliases` further (method, path) pairs. `result` is what it answers, or
    with `result_list` an entry of the list that it answers. `scope` is one of `relay.model.SCOPES`, ADMIN, or "" (any
    good key). `tool`: MCP lists it. `read_only`: it changes nothing. `beats`: its own transaction is the heartbeat of
    the caller's session. `json_lines`: the field that a body of JSON lines, or a JSON list, is on HTTP.
    """

    run: Run
    method: str
    path: str
    result: type[BaseModel]
    _: KW_ONLY
    scope: str
    aliases: tuple[tuple[str, str], ...] = ()
    tool: bool = False
    result_list: bool = False
    read_only: bool = False
    beats: bool = False
    json_lines: str = ""
    tag: str = "more"

    @property
    def name(self) -> str:
        return self.run.__name__

    @cached_property
    def request(self) -> type[Request]:
        """The type of the function's `request`."""
        request: type[Request] = get_type_hints(self.run)["request"]
        return request

    @cached_property
    def doc(self) -> str:
        """The function's docstring, for models and people: a line of summary, then the rest in one line."""
        summary, _, more = inspect.cleandoc(self.run.__doc__ or "").partition("\n")
        return f"{summary}\n{' '.join(more.split())}".strip()

    @property
    def endpoints(self) -> tuple[tuple[str, str], ...]:
        """Every (method, path) of it."""
        return ((self.method, self.path), *self.aliases)


def operation(method: str, path: str, result: type[BaseModel], **options: Any) -> Callable[[Run], Operation]:
    """Make an operation of the function that carries it out. `options` are the further fields of `Operation`."""
    return lambda run: Operation(run, method, path, result, **options)


async def perform(services: Services, caller: Caller, operation: Operation, values: Mapping[str, Any]) -> Any:
    """Run an operation for a caller with the values of its request; gives a JSON value. Raises Refusal."""
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
    """The values as a checked request. Raises Refusal, which names the field and what it should be."""
    try:
        return operation.request.model_validate(values)
    except ValidationError as error:
        raise malformed(operation.request, error.errors(include_url=False)) from None


def malformed(model: type[BaseModel], faults: list[ErrorDetails]) -> Refusal:
    """The refusal of an invalid request: its first fault in words, and the fields of all faults."""
    first = faults[0]
    field = _field(first["loc"])
    if first["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields) or "none"
        message, fix = f"Unknown field {field[:60]!r}.", f"Known: {known}."
    elif first["type"] == "missing":
        message, fix = f"{field} is missing.", _description(model, first["loc"])
    else:
        text = _fault_in_words(first)
        message = (
            f"{field[:60]}: {text.rstrip('.')}." if field else f"{text[:1].upper()}{text[1:].rstrip('.')}."
        )
        fix = _expected(model, first["loc"]) or _description(model, first["loc"])
    fields = [_field(fault["loc"])[:60] for fault in faults if fault["loc"]]
    return Refusal(message, fix, Fault.MALFORMED, details={"fields": fields[:20]})


def _fault_in_words(fault: ErrorDetails) -> str:
    """The fault of a value in words. pydantic calls the characters of a text items, and names its own validators."""
    bounds = fault.get("ctx") or {}
    if fault["type"] in ("too_long", "too_short", "string_too_long", "string_too_short"):
        what = "characters" if isinstance(fault["input"], str) else "entries"
        low, high = bounds.get("min_length"), bounds.get("max_length")
        allowed = f"at least {low:,}" if high is None else f"at most {high:,}"
        return f"it has {len(fault['input']):,} {what}; {allowed}"
    text = fault["msg"].removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _field(path: tuple[int | str, ...]) -> str:
    """A place in a request, like `files[0].path`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _description(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """The purpose of a field, by its declaration."""
    field = model.model_fields.get(str(path[0])) if path else None
    if field is None or not field.description:
        known = ", ".join(model.model_fields)
        return f"Fields: {known}." if known else "Send an empty object."
    return f"{path[0]}: {field.description}."


_KINDS = {"integer": "a whole number", "number": "a number", "string": "text", "boolean": "true or false"}


def _expected(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """The values that a field takes, by its schema; empty when the schema does not say."""
    schema = input_schema(model)["properties"].get(str(path[0])) if path else None
    words = _in_words(schema or {})
    return f"{path[0]}: {words}." if words else ""


def _in_words(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(map(str, schema.get('enum') or [schema['const']]))}"
    if schema.get("type") == "array":
        most = f", at most {schema['maxItems']:,}" if "maxItems" in schema else ""
        return f"a list, each entry {_in_words(schema.get('items') or {}) or 'a value'}{most}"
    words = _KINDS.get(str(schema.get("type")), "")
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if words and low is not None:
        words += f" from {low:,g}" + (f" to {high:,g}" if high is not None and high < 1e9 else " on")
    if "maxLength" in schema:
        low, high = schema.get("minLength", 0), schema["maxLength"]
        words += f" of {low:,} to {high:,} characters"
    return words


def one_of(request: Request, *fields: str) -> None:
    """Raises ValueError unless the request has exactly one of these fields."""
    given = [field for field in fields if getattr(request, field) is not None]
    if len(given) != 1:
        raise ValueError(f"give one of {' or '.join(fields)}, not {'both' if given else 'neither'}")
