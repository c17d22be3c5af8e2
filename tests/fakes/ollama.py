"""A fake Ollama: the real wire protocol over a real socket, with a model that does what a test says.

`POST /api/chat` (NDJSON stream, or one JSON object with `"stream": false`), `GET /api/tags`, `GET
/api/version`, `POST /api/show`. A request with a `format` gets the scripted decision, one without gets the
scripted reply.

In a test: the fixture `fake_ollama`. By hand, and for tests with processes of their own:
`python -m tests.fakes.ollama --port 11434 --model llama3.2 --mode answer`; it prints its address, and
`POST /fake {"mode": "hang"}` (also `decision`, `reply`, `delay_s`) changes what it does while it runs;
`GET /fake` tells what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

import pytest
from aiohttp import web

Request = dict[str, Any]


class Mode(StrEnum):
    ANSWER = "answer"
    HANG = "hang"
    """The request is taken and never answered."""
    SLOW = "slow"
    """Bytes dribble, one a `delay_s`: always alive, never done in time."""
    LATE = "late"
    """A right answer, after `delay_s`."""
    BAD_CONTENT = "bad_content"
    """Right protocol, but the content is not the JSON that was asked for."""
    UNKNOWN_AGENT = "unknown_agent"
    """A decision for an agent that does not exist."""
    EMPTY = "empty"
    ERROR = "error"
    """HTTP 500."""
    BUSY = "busy"
    """HTTP 503, as when too many requests wait."""
    MISSING_MODEL = "missing_model"
    NOT_JSON = "not_json"
    """Some other program has the port."""
    CUT = "cut"
    """The connection dies in the middle of the answer."""
    ERROR_IN_STREAM = "error_in_stream"
    NO_DONE = "no_done"
    """A stream that ends without its last part."""


def route_to_first(request: Request) -> dict[str, Any]:
    """Route to the first agent that the schema allows."""
    names = request["format"]["properties"]["agents"]["items"]["enum"]
    return {"reason": "the first one", "action": "route", "agents": names[:1], "reply": ""}


def by_words(request: Request) -> dict[str, Any]:
    """A small scripted mind: thanks are absorbed, "fix it" is unclear, the rest goes to whom it names."""
    text = asked(request).lower()
    if re.search(r"\b(thanks|thank you|hello)\b", text):
        return {"reason": "no work in it", "action": "absorb", "agents": [], "reply": "You are welcome."}
    if text.strip(" .!?") in ("fix it", "do it", "it is broken"):
        return {"reason": "unclear", "action": "clarify", "agents": [], "reply": "What is broken?"}
    names: list[str] = request["format"]["properties"]["agents"]["items"]["enum"]
    named = [name for name in names if name.lower() in text]
    return {"reason": "work", "action": "route", "agents": named or names[:1], "reply": ""}


def asked(request: Request) -> str:
    """The body of the new message in a request for a decision."""
    content = request["messages"][-1]["content"]
    data = json.loads(content[content.index("{") : content.rindex("}") + 1])
    body: str = data["new_message"]["text"]
    return body


class FakeOllama:
    """One server. `mode`, `decide`, `reply` and `delay_s` may be changed at any time."""

    def __init__(self, models: tuple[str, ...] = ("llama3.2:latest",), port: int = 0) -> None:
        self.models = models
        self.port = port
        self.mode = Mode.ANSWER
        self.decide: Callable[[Request], dict[str, Any] | str] = route_to_first
        self.reply: Callable[[Request], str] = lambda _request: "Hello from the local model."
        self.meanings: dict[str, int] = {}  # of words: those of one number mean the same
        self.refused = ""  # a text with this in it gets an error instead of a vector
        self.delay_s = 0.05
        self.refuses_think = False  # as some models do: HTTP 400 for a request that says anything of thinking
        self.requests: list[Request] = []
        self.looks = 0  # how often its models were asked for
        self.dropped = 0  # chats whose client went away
        self.answering = asyncio.Event()  # set when a chat has begun
        self.hung_up = asyncio.Event()  # set when a chat's client went away
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application()
        app.router.add_post("/api/chat", self._chat)
        app.router.add_post("/api/embed", self._embed)
        app.router.add_get("/api/tags", self._tags)
        app.router.add_get("/api/version", self._version)
        app.router.add_post("/api/show", self._show)
        app.router.add_get("/", self._root)
        app.router.add_route("*", "/fake", self._control)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port: from now on connections are refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # -- the protocol

    async def _root(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(text="Ollama is running")

    async def _version(self, _request: web.Request) -> web.StreamResponse:
        return await self._fault() or web.json_response({"version": "0.12.0"})

    async def _tags(self, _request: web.Request) -> web.StreamResponse:
        self.looks += 1
        fault = await self._fault()
        if fault is not None:
            return fault
        models = () if self.mode is Mode.MISSING_MODEL else self.models
        return web.json_response({"models": [_model(name) for name in models]})

    async def _show(self, request: web.Request) -> web.StreamResponse:
        fault = await self._fault()
        if fault is not None:
            return fault
        asked_for = await request.json()
        name = asked_for.get("model", "")
        if not self._has(name):
            return _not_found(name)
        return web.json_response({"details": _DETAILS, "model_info": {}, "capabilities": ["completion"]})

    async def _embed(self, http: web.Request) -> web.StreamResponse:
        request: Request = await http.json()
        self.requests.append(request)
        fault = await self._fault()
        if fault is not None:
            return fault
        if self.mode is Mode.MISSING_MODEL or not self._has(request["model"]):
            return _not_found(request["model"])
        if self.mode is Mode.LATE:
            await asyncio.sleep(self.delay_s)
        texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
        if self.mode is Mode.EMPTY:
            texts = []
        if self.refused and any(self.refused in text for text in texts):
            return web.json_response({"error": "the input length exceeds the context length"}, status=400)
        vectors = [self._vector(text) for text in texts]
        return web.json_response({"model": request["model"], "embeddings": vectors, "total_duration": 1})

    def _vector(self, text: str) -> list[float]:
        vector = [0.01] * 8
        for word in re.findall(r"\w+", text.lower()):
            vector[self.meanings.get(word, 7)] += 0.1 if word not in self.meanings else 1.0
        return vector

    async def _chat(self, http: web.Request) -> web.StreamResponse:
        request: Request = await http.json()
        self.requests.append(request)
        self.answering.set()
        try:
            return await self._answer(http, request)
        except (asyncio.CancelledError, ConnectionError):
            self.dropped += 1
            self.hung_up.set()
            raise

    async def _answer(self, http: web.Request, request: Request) -> web.StreamResponse:
        fault = await self._fault()
        if fault is not None:
            return fault
        model = request["model"]
        if not self._has(model):
            return _not_found(model)
        if self.refuses_think and "think" in request:
            return web.json_response({"error": f'"{model}" does not support thinking'}, status=400)
        if self.mode is Mode.LATE:
            await asyncio.sleep(self.delay_s)
        content = self._content(request)
        last = {
            **_part(model, ""),
            "done": True,
            "done_reason": "stop",
            "total_duration": 5_000_000,
            "load_duration": 1_000_000,
            "prompt_eval_count": sum(len(m["content"]) for m in request["messages"]) // 4,
            "prompt_eval_duration": 2_000_000,
            "eval_count": max(1, len(content) // 4) if content else 0,
            "eval_duration": 2_000_000,
        }
        if request.get("stream", True):
            return await self._stream(http, model, content, last)
        last["message"] = {"role": "assistant", "content": content}
        body = json.dumps(last).encode()
        if self.mode not in (Mode.SLOW, Mode.CUT):
            return web.Response(body=body, content_type="application/json", charset="utf-8")
        response = web.StreamResponse(headers={"Content-Type": "application/json; charset=utf-8"})
        response.content_length = len(body)
        await response.prepare(http)
        if self.mode is Mode.CUT:
            return await self._cut(http, response, body)
        return await self._dribble(response, body)

    async def _stream(
        self, http: web.Request, model: str, content: str, last: dict[str, Any]
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.enable_chunked_encoding()
        await response.prepare(http)
        pieces = re.findall(r"\s*\S+|\s+$", content)
        lines = [_line(_part(model, piece)) for piece in pieces]
        if self.mode is Mode.CUT:
            return await self._cut(http, response, b"".join(lines))
        if self.mode is Mode.SLOW:
            return await self._dribble(response, b"".join([*lines, _line(last)]))
        for line in lines:
            await response.write(line)
        if self.mode is Mode.ERROR_IN_STREAM:
            await response.write(_line({"error": "llama runner process has terminated: signal: killed"}))
        elif self.mode is not Mode.NO_DONE:
            await response.write(_line(last))
        await response.write_eof()
        return response

    async def _cut(self, http: web.Request, response: web.StreamResponse, body: bytes) -> web.StreamResponse:
        await response.write(body[: max(1, len(body) // 2)])
        await asyncio.sleep(0.02)
        if http.transport is not None:
            http.transport.abort()
        return response

    async def _dribble(self, response: web.StreamResponse, body: bytes) -> web.StreamResponse:
        for byte in body:
            await response.write(bytes([byte]))
            await asyncio.sleep(self.delay_s)
        await response.write_eof()
        return response

    async def _fault(self) -> web.StreamResponse | None:
        """What goes wrong before any model is asked."""
        match self.mode:
            case Mode.HANG:
                await asyncio.Event().wait()
            case Mode.ERROR:
                return web.json_response({"error": "llama runner process no longer running"}, status=500)
            case Mode.BUSY:
                return web.json_response(
                    {"error": "server busy, please try again.  maximum pending requests exceeded"}, status=503
                )
            case Mode.NOT_JSON:
                return web.Response(text="<html><body>It works!</body></html>", content_type="text/html")
        return None

    def _content(self, request: Request) -> str:
        if self.mode is Mode.EMPTY:
            return ""
        if self.mode is Mode.BAD_CONTENT:
            return "Sure! I would say {action: route"
        if not request.get("format"):
            return self.reply(request)
        if self.mode is Mode.UNKNOWN_AGENT:
            return json.dumps({"reason": "r", "action": "route", "agents": ["NOBODY"], "reply": ""})
        decided = self.decide(request)
        return decided if isinstance(decided, str) else json.dumps(decided)

    def _has(self, name: str) -> bool:
        return self.mode is not Mode.MISSING_MODEL and (
            name in self.models or f"{name}:latest" in self.models
        )

    async def _control(self, http: web.Request) -> web.StreamResponse:
        """Not Ollama's: how another process changes what this fake does."""
        if http.method == "POST":
            wanted = await http.json()
            if "mode" in wanted:
                self.mode = Mode(wanted["mode"])
            if "delay_s" in wanted:
                self.delay_s = float(wanted["delay_s"])
            if "decision" in wanted:
                decision = wanted["decision"]
                self.decide = by_words if decision is None else lambda _request: decision
            if "reply" in wanted:
                reply = str(wanted["reply"])
                self.reply = lambda _request: reply
        return web.json_response({"mode": self.mode, "requests": self.requests, "dropped": self.dropped})


_DETAILS = {
    "parent_model": "",
    "format": "gguf",
    "family": "llama",
    "families": ["llama"],
    "parameter_size": "3.2B",
    "quantization_level": "Q4_K_M",
}
_NOW = "2026-01-01T12:00:00.123456789Z"


def _part(model: str, text: str) -> dict[str, Any]:
    return {
        "model": model,
        "created_at": _NOW,
        "message": {"role": "assistant", "content": text},
        "done": False,
    }


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _model(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "model": name,
        "modified_at": _NOW,
        "size": 2_019_393_189,
        "digest": "a80c4f17acd55265feec403c7aef86be0c25983ab279d83f3bcd3abbcb5b8b72",
        "details": _DETAILS,
    }


def _not_found(name: str) -> web.Response:
    return web.json_response({"error": f"model '{name}' not found"}, status=404)


@asynccontextmanager
async def running(models: tuple[str, ...] = ("llama3.2:latest",)) -> AsyncIterator[FakeOllama]:
    """A fake that answers, on a free port."""
    fake = FakeOllama(models)
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()


@pytest.fixture
async def fake_ollama() -> AsyncIterator[FakeOllama]:
    """A fake that answers, on a free port."""
    async with running() as fake:
        yield fake


async def _serve(port: int, models: tuple[str, ...], mode: Mode, delay_s: float) -> None:
    fake = FakeOllama(models, port)
    fake.mode, fake.decide, fake.delay_s = mode, by_words, delay_s
    await fake.start()
    print(fake.url, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await fake.stop()


def main() -> None:
    options = argparse.ArgumentParser(
        prog="python -m tests.fakes.ollama", description="A fake Ollama server."
    )
    options.add_argument("--port", type=int, default=0, help="0 takes a free one; the address is printed")
    options.add_argument("--model", action="append", help="a model that is there (default llama3.2:latest)")
    options.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.ANSWER)
    options.add_argument("--delay-s", type=float, default=0.05)
    chosen = options.parse_args()
    try:
        asyncio.run(
            _serve(chosen.port, tuple(chosen.model or ("llama3.2:latest",)), chosen.mode, chosen.delay_s)
        )
    except KeyboardInterrupt:
        return


if __name__ == "__main__":
    main()
