"""Short forms by a local model: a real client, a fake server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from relay.config.settings import DispatcherSettings
from relay.memory import summaries
from relay.memory.compression import Note
from relay.memory.summaries import LocalSummaries, read
from tests.fakes.ollama import FakeOllama, Mode

NOTES = [
    Note(f"k{at}", at, f"Note {at} says a lot of words about src/a{at}.py. " * 5, False, False, at, f"e{at}")
    for at in (1, 2)
]


@pytest.fixture
async def ollama() -> AsyncIterator[FakeOllama]:
    fake = FakeOllama()
    await fake.start()
    yield fake
    await fake.stop()


def asking(fake: FakeOllama, **more: Any) -> LocalSummaries:
    settings = DispatcherSettings(ollama_host=fake.url, model="llama3.2:latest", **more)
    return LocalSummaries(lambda: settings)


def shorten(request: dict[str, Any]) -> dict[str, Any]:
    told = json.loads(request["messages"][-1]["content"])["notes"]
    return {"notes": [{"n": note["n"], "text": note["text"][:20]} for note in told]}


async def test_each_note_gets_its_short_form(ollama: FakeOllama) -> None:
    ollama.decide = shorten
    assert await asking(ollama)(NOTES) == {"e1": "Note 1 says a lot of", "e2": "Note 2 says a lot of"}
    assert ollama.requests[0]["model"] == "llama3.2:latest"


@pytest.mark.parametrize("mode", [Mode.ERROR, Mode.NOT_JSON, Mode.CUT, Mode.BAD_CONTENT, Mode.MISSING_MODEL])
async def test_whatever_the_server_does_the_caller_goes_on(ollama: FakeOllama, mode: Mode) -> None:
    ollama.mode = mode
    assert await asking(ollama)(NOTES) == {}


async def test_a_slow_or_absent_server_is_given_up(
    ollama: FakeOllama, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summaries, "WITHIN_S", 0.3)
    ollama.mode = Mode.HANG
    assert await asking(ollama)(NOTES) == {}
    await ollama.stop()
    assert await asking(ollama)(NOTES) == {}


async def test_a_model_that_must_think_is_asked_again(ollama: FakeOllama) -> None:
    ollama.decide, ollama.refuses_think = shorten, True
    assert set(await asking(ollama)(NOTES)) == {"e1", "e2"}


async def test_a_model_that_is_switched_off_is_not_asked(ollama: FakeOllama) -> None:
    assert await asking(ollama, enabled=False)(NOTES) == {}
    assert ollama.requests == []


@pytest.mark.parametrize(
    ("content", "short"),
    [
        ('{"notes": [{"n": 1, "text": " ok "}]}', {"e1": "ok"}),
        ('{"notes": [{"n": 3, "text": "no"}, {"n": true, "text": "no"}, {"n": 0, "text": "no"}]}', {}),
        ('{"notes": [{"n": 1, "text": 7}, 5, {"n": 2}]}', {}),
        (json.dumps({"notes": [{"n": 1, "text": "longer " * 200}, {"n": 2, "text": " "}]}), {}),
        ('{"notes": {"n": 1}}', {}),
        ("[]", {}),
        ("no", {}),
        ('{"notes": [{"n": 1, "text": "a\\u0000b\\ud800"}]}', {"e1": "ab?"}),
    ],
)
def test_what_an_answer_may_say(content: str, short: dict[str, str]) -> None:
    assert read(content, NOTES) == short
