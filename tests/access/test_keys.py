"""API keys: made once, kept as digests, refused at once when they are over."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay.access.keys import LOOK_S, USED_EVERY_S, Keys, span_s
from relay.app.commands.keys import _listed, main
from relay.model import ADMIN, SCOPES, Caller, Fault, Refusal
from relay.store.ports import Store
from tests.engines import BOTH, SCHEMAS, Clock, all_events, open_store

ANN = Caller("ann", "person-ann", "person", person=True, scopes=SCOPES | {ADMIN})


@pytest.fixture
def clock() -> Clock:
    return Clock(1000.0)


@pytest.fixture
async def store(tmp_path: Path, clock: Clock) -> AsyncIterator[Store]:
    one = await open_store(tmp_path, SCHEMAS, clock=clock)
    yield one
    await one.close()


def keys_of(store: Store, ticks: Clock) -> Keys:
    return Keys(store, lambda: ["CLAUDE"], ticks=ticks)


@BOTH
async def test_a_key_is_good_until_it_is_over_in_every_process(store: Store, clock: Clock) -> None:
    here, there = keys_of(store, clock), keys_of(store, clock)
    made = await here.create(ANN, "CLAUDE", agent_type="claude_code", scopes=["read"], expires="1h")
    found = await there.find(made["key"])
    assert found is not None
    assert (found.identity, found.agent_type, found.scopes) == ("CLAUDE", "claude_code", frozenset({"read"}))
    assert await there.alive(found.id)
    # Another with the same public id, and what only looks like a key.
    for wrong in (
        made["key"][:-1] + "~",
        made["key"][:-1] + ("A" if made["key"][-1] != "A" else "B"),
        "rk_",
        "",
    ):
        assert await there.find(wrong) is None
        assert await here.find(wrong) is None
    assert await there.find(made["key"]) is not None
    revoked = await here.revoke(ANN, made["id"])
    assert revoked["success"] and revoked["state"] == "revoked"
    assert await here.find(made["key"]) is None, "at once where it was revoked"
    clock.now += LOOK_S
    assert await there.find(made["key"]) is None, "and elsewhere as soon as no look is trusted any more"
    assert not await there.alive(made["id"])
    assert await here.revoke(ANN, made["id"]) == revoked, "again is as good as once"


@BOTH
async def test_a_key_ends_by_the_stores_clock(store: Store, clock: Clock) -> None:
    keys = keys_of(store, clock)
    made = await keys.create(ANN, "ci", expires="10s")
    clock.now += 9.9
    assert await keys.find(made["key"]) is not None
    clock.now += 0.1
    assert await keys.find(made["key"]) is None, "not a moment longer, though a look was just taken"
    assert [one["state"] for one in await keys.list(ANN)] == ["expired"]


async def test_no_secret_is_kept_or_told(store: Store, clock: Clock, tmp_path: Path) -> None:
    keys = keys_of(store, clock)
    made = await keys.create(ANN, "ci", note="for the build")
    await keys.find(made["key"])
    await keys.revoke(ANN, made["key"])  # the text of a key names it too
    secret = made["key"].split("_", 2)[2]
    assert len(secret) == 43
    log = await all_events(store)
    assert [(one.type, one.outputs["key"]["id"], one.outputs["by"]) for one in log] == [
        ("key.created", made["id"], "ann"),
        ("key.revoked", made["id"], "ann"),
    ]
    await store.checkpoint(whole=True)
    for file in tmp_path.iterdir():
        assert secret.encode() not in file.read_bytes()
    assert secret not in json.dumps(await keys.list(ANN))


@BOTH
async def test_its_use_is_noted_at_most_once_a_minute(store: Store, clock: Clock) -> None:
    keys = keys_of(store, clock)
    made = await keys.create(ANN, "ci")
    used = []
    for step in (0.0, LOOK_S, USED_EVERY_S):
        clock.now += step
        await keys.find(made["key"])
        used.append((await keys.list(ANN))[0]["used_at"])
    assert used[0] is not None
    assert used[0] == used[1] != used[2]


@pytest.mark.parametrize(
    ("name", "more", "says"),
    [
        ("RELAY", {}, "room's own name"),
        ("ℝelay", {}, "room's own name"),
        ("all", {}, "room's own name"),
        ("claude", {}, "write CLAUDE"),
        ("CLAUDE", {"agent_type": "person"}, "not a person"),
        ("", {}, "empty"),
        ("x" * 65, {}, "at most"),
        ("ci", {"scopes": ["write"]}, "Scopes: locks, memory, read, room, work, admin"),
        ("ci", {"scopes": []}, "allows nothing"),
        ("ci", {"expires": "soon"}, "30d, 12h"),
        ("ci", {"expires": "0d"}, "30d, 12h"),
        ("ci", {"expires": "99999w"}, "ten years"),
    ],
)
async def test_what_no_key_can_be(
    store: Store, clock: Clock, name: str, more: dict[str, object], says: str
) -> None:
    with pytest.raises(Refusal) as refused:
        await keys_of(store, clock).create(ANN, name, **more)  # type: ignore[arg-type]
    assert refused.value.fault is Fault.MALFORMED
    assert says in str(refused.value)
    assert await keys_of(store, clock).list(ANN) == []


async def test_an_unknown_key_cannot_be_revoked(store: Store, clock: Clock) -> None:
    for id, fault in (("0" * 16, Fault.UNKNOWN), ("nothing", Fault.MALFORMED)):
        with pytest.raises(Refusal) as refused:
            await keys_of(store, clock).revoke(ANN, id)
        assert refused.value.fault is fault


def test_spans() -> None:
    spans = {"never": None, "45m": 2700.0, "12H": 43200.0, "30d": 2592000.0, "1w": 604800.0, "5s": 5.0}
    assert {text: span_s(text) for text in spans} == spans


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"agents": [{"name": "CLAUDE", "preset": "claude"}]}')

    def relay(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--config", str(config)])
        told = capsys.readouterr()
        return code, told.out, told.err

    code, out, _ = relay("create", "CLAUDE", "--scopes", "read,locks", "--expires", "30d", "--json")
    made = json.loads(out)
    assert code == 0
    assert made["scopes"] == ["locks", "read"]
    code, out, _ = relay("create", "ci")
    assert code == 0
    assert out.startswith("rk_")
    assert "not shown again" in out
    code, out, _ = relay("list")
    assert code == 0
    assert made["id"] in out
    assert made["key"] not in out
    assert relay("revoke", made["id"])[0] == 0
    states = {one["id"]: one["state"] for one in json.loads(relay("list", "--json")[1])}
    assert sorted(states.values()) == ["good", "revoked"]
    assert relay("revoke", "0" * 16)[0] == 1
    code, _, err = relay("create", "claude")
    assert (code, "write CLAUDE" in err) == (2, True)


def test_the_daemons_own_keys_come_last_in_words() -> None:
    one = {"id": "1", "identity": "CLAUDE", "state": "good", "scopes": ["read"], "note": "[1, 2.5]",
           "created_by": "RELAY", "expires_at": None, "used_at": None}  # fmt: skip
    lines = _listed([one, {**one, "id": "2", "created_by": "ann", "note": "for the builds"}]).splitlines()
    assert lines[1].endswith("for the builds") and lines[2].endswith("the daemon's, while it runs")
