"""A local model as an agent, against a server that speaks Ollama's protocol over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.agents.ollama import OllamaAgent, compose
from relay.model import Agent, EndPart, FailureClass, Part, TextPart, Turn, TurnLimits, UsagePart
from tests.fakes.ollama import FakeOllama, Mode, running

PATIENT_S = 60.0
MODEL = "llama3.2"


@pytest.fixture
async def server() -> AsyncIterator[FakeOllama]:
    async with running() as fake:
        yield fake


def turn(
    prompt: str = "hello?", *, context: str = "", timeout_s: float = PATIENT_S, kept: int = 65536
) -> Turn:
    return Turn("LLAMA", prompt, context, limits=TurnLimits(timeout_s, kept))


async def parts_of(server: FakeOllama, asked: Turn, model: str = MODEL) -> tuple[list[Part], EndPart]:
    agent: Agent = OllamaAgent("LLAMA", model, host=server.url)
    parts = [part async for part in agent.run(asked)]
    assert sum(isinstance(part, EndPart) for part in parts) == 1
    assert isinstance(parts[-1], EndPart)
    return parts[:-1], parts[-1]


def text_of(parts: list[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


async def test_a_turn(server: FakeOllama) -> None:
    parts, end = await parts_of(server, turn(context="[ann] we use SQLite"))
    assert end == EndPart()
    assert text_of(parts) == "Hello from the local model."
    assert sum(isinstance(part, TextPart) for part in parts) > 1
    usage = [part for part in parts if isinstance(part, UsagePart)]
    assert len(usage) == 1
    assert usage[0].input_tokens > 0
    assert usage[0].output_tokens > 0
    assert usage[0].cost_usd == 0
    (request,) = server.requests
    assert request["stream"] is True
    assert request["model"] == MODEL
    assert [m["role"] for m in request["messages"]] == ["system", "user"]
    assert "[ann] we use SQLite" in request["messages"][1]["content"]
    assert request["messages"][1]["content"].endswith("The message to answer:\nhello?")


@pytest.mark.parametrize(
    ("mode", "failure", "says"),
    [
        (Mode.MISSING_MODEL, FailureClass.NOT_INSTALLED, "`ollama pull llama3.2`"),
        (Mode.EMPTY, FailureClass.EMPTY, "gave an empty answer"),
        (Mode.ERROR, FailureClass.CRASH, "HTTP 500"),
        (Mode.BUSY, FailureClass.CRASH, "server busy"),
        (Mode.NOT_JSON, FailureClass.CRASH, "does not speak Ollama's protocol"),
        (Mode.CUT, FailureClass.CRASH, "was lost"),
        (Mode.ERROR_IN_STREAM, FailureClass.CRASH, "signal: killed"),
        (Mode.NO_DONE, FailureClass.CRASH, "before it was complete"),
    ],
)
async def test_every_failure_has_its_class(
    server: FakeOllama, mode: Mode, failure: FailureClass, says: str
) -> None:
    server.mode = mode
    _, end = await parts_of(server, turn())
    assert end.failure is failure
    assert says in end.detail


@pytest.mark.parametrize("mode", [Mode.HANG, Mode.SLOW, Mode.LATE])
async def test_a_turn_ends_at_its_limit(server: FakeOllama, mode: Mode) -> None:
    server.mode, server.delay_s = mode, 3.0
    await OllamaAgent("LLAMA", MODEL, host="http://127.0.0.1:9").probe()  # imports the client
    _, end = await parts_of(server, turn(timeout_s=1.0))
    assert end.failure is FailureClass.TIMEOUT
    async with asyncio.timeout(PATIENT_S):
        await server.hung_up.wait()


async def test_a_closed_port(server: FakeOllama) -> None:
    await server.stop()
    _, end = await parts_of(server, turn())
    assert end.failure is FailureClass.NOT_INSTALLED
    assert "`ollama serve`" in end.detail


async def test_output_is_bounded_in_whole_characters(server: FakeOllama) -> None:
    server.reply = lambda _request: "häß " * 100_000
    parts, end = await parts_of(server, turn(kept=1001))
    assert end == EndPart(truncated=True)
    text = text_of(parts)
    assert 998 <= len(text.encode()) <= 1001
    assert ("häß " * 1000).startswith(text)


async def test_closing_the_iterator_stops_the_model(server: FakeOllama) -> None:
    server.mode, server.delay_s = Mode.SLOW, 0.001
    server.reply = lambda _request: "word " * 10_000
    agent = OllamaAgent("LLAMA", MODEL, host=server.url)
    # The Protocol promises an iterator; that this one can be closed is what is tested.
    async with aclosing(cast(AsyncGenerator[Part, None], agent.run(turn()))) as stream:
        async for part in stream:
            assert isinstance(part, TextPart)
            break
    async with asyncio.timeout(PATIENT_S):
        await server.hung_up.wait()


async def test_cancelling_the_task_stops_the_model(server: FakeOllama) -> None:
    server.mode = Mode.HANG
    agent = OllamaAgent("LLAMA", MODEL, host=server.url)

    async def read() -> None:
        async for _ in agent.run(turn()):
            pass

    task = asyncio.create_task(read())
    async with asyncio.timeout(PATIENT_S):
        await server.answering.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hung_up.wait()


async def test_a_probe(server: FakeOllama) -> None:
    there = await OllamaAgent("LLAMA", MODEL, host=server.url).probe()
    assert there.installed
    assert MODEL in there.detail
    missing = await OllamaAgent("LLAMA", "qwen3:4b", host=server.url).probe()
    assert (missing.installed, missing.fix) == (False, "ollama pull qwen3:4b")
    server.mode = Mode.NOT_JSON
    assert not (await OllamaAgent("LLAMA", MODEL, host=server.url).probe()).installed
    await server.stop()
    gone = await OllamaAgent("LLAMA", MODEL, host=server.url).probe()
    assert (gone.installed, gone.fix) == (False, "ollama serve")
    assert server.url in gone.detail


async def test_the_window_grows_in_steps_with_the_prompt(server: FakeOllama) -> None:
    for length in (10, 5_000, 30_000, 1_000_000):
        await parts_of(server, turn("x" * length))
    assert [r["options"]["num_ctx"] for r in server.requests] == [8192, 8192, 16384, 32768]


@given(st.text(), st.text())
def test_the_room_cannot_leave_its_fence(context: str, prompt: str) -> None:
    mark = "f00dfeed12345678"
    system, user = compose(Turn("LLAMA", prompt, f"x{context}"), mark)
    user_text = user["content"]
    assert f"ROOM {mark}" in system["content"]
    inside = user_text[len(f"ROOM {mark}\n") : user_text.index(f"\nEND {mark}")]
    assert inside == f"x{context}".encode("utf-8", "replace").decode()


def test_an_interrupted_turn_is_told_so() -> None:
    _, user = compose(Turn("LLAMA", "go", interrupted=True), "m")
    assert "cut off" in user["content"]
    assert "ROOM" not in user["content"]
