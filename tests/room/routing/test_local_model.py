"""The dispatcher against a server that speaks Ollama's protocol over a real socket."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import ollama
import pytest

from relay.model import Kind, Message
from relay.room.routing.decision import Action, AgentBrief, RoomLine
from relay.room.routing.fallback import Cause, DispatcherUnavailable
from relay.room.routing.local_model import Dispatcher
from tests.fakes.ollama import FakeOllama, Mode, asked, by_words

AGENTS = (AgentBrief("CLAUDE", "large changes"), AgentBrief("CODEX", "tests"))
PATIENT_S = 60.0
ROOT = Path(__file__).parents[3]


def said(body: str) -> Message:
    return Message("id-1", "2026-01-01T00:00:00Z", "ann", Kind.HUMAN, body)


def dispatcher(fake: FakeOllama, timeout_s: float = PATIENT_S, model: str = "llama3.2") -> Dispatcher:
    return Dispatcher(model, host=fake.url, timeout_s=timeout_s)


async def fails(asking: Dispatcher, body: str = "fix the parser") -> DispatcherUnavailable:
    try:
        with pytest.raises(DispatcherUnavailable) as caught:
            await asking.decide(said(body), [], AGENTS)
    finally:
        await asking.close()
    return caught.value


@pytest.mark.parametrize(
    ("body", "action", "agents", "reply"),
    [
        ("please look at the parser, codex", Action.ROUTE, ("CODEX",), ""),
        ("claude and codex, which is better?", Action.ROUTE, ("CLAUDE", "CODEX"), ""),
        ("thanks!", Action.ABSORB, (), "You are welcome."),
        ("fix it", Action.CLARIFY, (), "What is broken?"),
    ],
)
async def test_a_decision(
    fake_ollama: FakeOllama, body: str, action: Action, agents: tuple[str, ...], reply: str
) -> None:
    fake_ollama.decide = by_words
    asking = dispatcher(fake_ollama)
    decision = await asking.decide(said(body), [RoomLine("bob", "hello")], AGENTS)
    await asking.close()
    assert (decision.action, decision.agents, decision.reply) == (action, agents, reply)
    assert decision.model == "llama3.2"
    assert decision.took_ms > 0


async def test_what_is_asked(fake_ollama: FakeOllama) -> None:
    asking = dispatcher(fake_ollama)
    await asking.decide(said("fix the parser"), [RoomLine("bob", "it broke")], AGENTS)
    await asking.close()
    (request,) = fake_ollama.requests
    assert request["stream"] is False
    assert request["think"] is False
    assert request["options"]["temperature"] == 0
    assert request["format"]["properties"]["agents"]["items"]["enum"] == ["CLAUDE", "CODEX"]
    assert asked(request) == "fix the parser"
    assert '"it broke"' in request["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("mode", "cause", "says"),
    [
        (Mode.MISSING_MODEL, Cause.MODEL_MISSING, "ollama pull llama3.2"),
        (Mode.BAD_CONTENT, Cause.BAD_ANSWER, "not JSON"),
        (Mode.EMPTY, Cause.BAD_ANSWER, "not JSON"),
        (Mode.UNKNOWN_AGENT, Cause.UNKNOWN_AGENT, "NOBODY"),
        (Mode.ERROR, Cause.BAD_ANSWER, "HTTP 500"),
        (Mode.BUSY, Cause.BAD_ANSWER, "server busy"),
        (Mode.NOT_JSON, Cause.BAD_ANSWER, "does not speak Ollama's protocol"),
        (Mode.CUT, Cause.UNREACHABLE, "was lost"),
    ],
)
async def test_every_failure_is_named(fake_ollama: FakeOllama, mode: Mode, cause: Cause, says: str) -> None:
    fake_ollama.mode = mode
    error = await fails(dispatcher(fake_ollama))
    assert error.cause is cause
    assert says in str(error)
    assert error.fix


@pytest.mark.parametrize("mode", [Mode.HANG, Mode.SLOW, Mode.LATE])
async def test_one_deadline_for_everything(fake_ollama: FakeOllama, mode: Mode) -> None:
    warm = dispatcher(fake_ollama)
    await warm.trouble()  # the import of the client must not use the short deadline up
    await warm.close()
    fake_ollama.mode, fake_ollama.delay_s = mode, 2.0
    error = await fails(dispatcher(fake_ollama, timeout_s=1.0))
    assert error.cause is Cause.TIMEOUT
    assert "within 1 s" in str(error)
    async with asyncio.timeout(PATIENT_S):
        await fake_ollama.hung_up.wait()  # the request is not left running


async def test_a_closed_port(fake_ollama: FakeOllama) -> None:
    await fake_ollama.stop()
    error = await fails(dispatcher(fake_ollama))
    assert error.cause is Cause.UNREACHABLE
    assert "ollama serve" in str(error)
    assert fake_ollama.url in str(error)


async def test_an_address_that_is_none() -> None:
    error = await fails(Dispatcher("m", host="http://no host at all"))
    assert error.cause in (Cause.UNREACHABLE, Cause.BAD_ANSWER)


async def test_it_is_back_on_the_same_client(fake_ollama: FakeOllama) -> None:
    asking = dispatcher(fake_ollama)
    await asking.decide(said("one"), [], AGENTS)
    await fake_ollama.stop()
    assert await asking.trouble() is not None
    with pytest.raises(DispatcherUnavailable):
        await asking.decide(said("two"), [], AGENTS)
    await fake_ollama.start()
    assert await asking.trouble() is None
    assert (await asking.decide(said("three"), [], AGENTS)).agents == ("CLAUDE",)
    await asking.close()


async def test_a_probe_says_what_is_missing(fake_ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    for model, there in [
        ("llama3.2", True),
        ("llama3.2:latest", True),
        ("llama3.2:1b", False),
        ("other", False),
    ]:
        asking = dispatcher(fake_ollama, model=model)
        trouble = await asking.trouble()
        await asking.close()
        assert (trouble is None) is there
        assert there or f"ollama pull {model}" in str(trouble)
    fake_ollama.mode = Mode.HANG
    monkeypatch.setattr("relay.room.routing.local_model.PROBE_TIMEOUT_S", 0.2)
    asking = dispatcher(fake_ollama)
    trouble = await asking.trouble()
    await asking.close()
    assert trouble is not None
    assert "did not answer" in str(trouble)


async def test_a_model_that_will_not_be_told_not_to_think(fake_ollama: FakeOllama) -> None:
    fake_ollama.decide = by_words
    fake_ollama.refuses_think = True
    asking = dispatcher(fake_ollama)
    assert (await asking.decide(said("codex, one"), [], AGENTS)).agents == ("CODEX",)
    assert (await asking.decide(said("codex, two"), [], AGENTS)).agents == ("CODEX",)
    await asking.close()
    assert ["think" in request for request in fake_ollama.requests] == [True, False, False]


async def test_switched_off() -> None:
    error = await fails(Dispatcher("m", enabled=False))
    assert error.cause is Cause.DISABLED


async def test_nobody_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no agents"):
        await Dispatcher("m").decide(said("x"), [], ())


async def test_a_proxy_of_the_environment_is_not_asked(
    fake_ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    asking = dispatcher(fake_ollama)
    assert (await asking.decide(said("x"), [], AGENTS)).agents == ("CLAUDE",)
    await asking.close()


def test_the_client_is_imported_late(unused_tcp_port: int) -> None:
    """Not for the module, and not to find out that nobody listens."""
    code = (
        "import asyncio, sys; from relay.room.routing.local_model import Dispatcher as D; "
        f"print(asyncio.run(D('m', host='http://127.0.0.1:{unused_tcp_port}').trouble()).cause, "
        "[m for m in ('ollama', 'httpx') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert out.stdout.strip() == "unreachable []"


# -- the fake itself, against the real client library


async def test_the_fake_streams_like_the_real_one(fake_ollama: FakeOllama) -> None:
    client = ollama.AsyncClient(fake_ollama.url)
    parts = [p async for p in await client.chat("llama3.2", [{"role": "user", "content": "hi"}], stream=True)]
    assert "".join(p.message.content or "" for p in parts) == "Hello from the local model."
    assert [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].eval_count
    assert (await client.list()).models[0].model == "llama3.2:latest"
    assert (await client.show("llama3.2")).capabilities == ["completion"]
    with pytest.raises(ollama.ResponseError) as caught:
        await client.show("nothing")
    assert (caught.value.status_code, caught.value.error) == (404, "model 'nothing' not found")
    await client.close()


async def test_the_fake_runs_as_a_program() -> None:
    fake = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.ollama", "--model", "tiny", stdout=subprocess.PIPE, cwd=ROOT
    )
    assert fake.stdout is not None
    try:
        async with asyncio.timeout(PATIENT_S):
            url = (await fake.stdout.readline()).decode().strip()
        asking = Dispatcher("tiny", host=url, timeout_s=PATIENT_S)
        assert (await asking.decide(said("thanks"), [], AGENTS)).action is Action.ABSORB
        await asyncio.to_thread(_control, url, {"mode": "unknown_agent"})
        assert (await fails(asking)).cause is Cause.UNKNOWN_AGENT
    finally:
        fake.terminate()
        await fake.wait()


def _control(url: str, change: dict[str, object]) -> None:
    with urlopen(Request(f"{url}/fake", json.dumps(change).encode())) as answer:
        assert json.load(answer)["mode"] == change["mode"]


async def test_one_that_is_retired_ends_its_decision_first(fake_ollama: FakeOllama) -> None:
    fake_ollama.mode = Mode.LATE
    fake_ollama.delay_s = 0.3
    asking = dispatcher(fake_ollama)
    under_way = asyncio.create_task(asking.decide(said("look at the parser"), [], AGENTS))
    async with asyncio.timeout(PATIENT_S):
        await fake_ollama.answering.wait()
    await asking.retire()
    assert (await under_way).action is Action.ROUTE
    assert asking._client is None
