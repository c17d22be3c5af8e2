"""Agents in the room by a call of their own: what they say, what they have seen, and whom they set to work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay.log import events
from relay.log.events import Event
from relay.model import Caller, Fault, Kind, Refusal
from relay.room.callers import MOST_SEEN, Callers
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.journal import hop_limit, ledger
from relay.room.journal.admission_rules import Rules
from relay.room.journal.ledger import Q
from relay.room.journal.values import message_of_row
from relay.room.transcript.checkpoint import lacking
from relay.room.transcript.file_position import Place
from relay.store.ports import Store
from tests.engines import BOTH
from tests.room.journal.test_visitors import session

pytestmark = BOTH

A, B = Caller("ALPHA", "s-a"), Caller("BETA", "s-b")
ANN = Caller("ann", "person-ann", "person", person=True)
RULES = Rules(agents=("ALPHA", "BETA"), agent_mentions=True, hop_limit=2)


SESSIONS = [
    session("root-claude", agent_type="claude-code", locks=1),
    session("ALPHA"),
    session("dee kay", agent_type="person"),
]


class Shelf:
    async def sessions(self, tx: Any) -> list[dict[str, Any]]:
        return SESSIONS


def voices(store: Store, rules: Rules = RULES) -> Callers:
    members = [
        Member("ALPHA", "command", Policy("ALPHA"), "claude"),
        Member("BETA", "command", Policy("BETA"), enabled=False),
    ]
    roster = Roster({member.name: member for member in members}, replace(rules, max_entry_bytes=1000))
    return Callers(store, roster, Shelf())  # type: ignore[arg-type]


async def event_of(store: Store, message_id: str) -> Event:
    async def look(tx: Any) -> Event:
        row = await tx.one(Q.event_of_message, id=message_id)
        found = await events.get(tx, row["event_id"])
        assert found is not None
        return found

    return await store.read(look)


async def saw(store: Store, later: str, earlier: str) -> bool:
    one, other = await event_of(store, later), await event_of(store, earlier)
    return await store.read(lambda tx: events.has_seen(tx, one, other))


async def jobs_of(store: Store, message_id: str) -> list[str]:
    rows = await store.read(lambda tx: tx.all(Q.jobs_of_message, message_id=message_id))
    return [row["agent"] for row in rows]


async def test_an_agents_entry_is_whole_without_a_daemon(store: Store) -> None:
    room = voices(store)
    told = await room.post(A, "I have `src/app.py`.", client_id="c-1")
    assert await room.post(A, "I have `src/app.py`.", client_id="c-1") == told, "once"
    with pytest.raises(Refusal) as refused:
        await room.post(B, "mine", client_id="c-1")
    assert (refused.value.fault, refused.value.code) == (Fault.REFUSED, "client_id_taken")
    row = await store.read(lambda tx: tx.one(Q.message, id=told["id"]))
    message = message_of_row(row)
    assert (message.kind, message.speaker, message.number) == (Kind.AGENT, "ALPHA", 1)
    event = await event_of(store, told["id"])
    assert (event.session, event.lane) == ("s-a", "ALPHA")
    assert (await store.read(lambda tx: lacking(tx, Place())))[0] == 1, "a daemon brings it to the file"
    assert await store.read(lambda tx: tx.one(Q.cycle, message_id=told["id"])) is None, "it opens no cycle"


async def test_what_a_session_read_its_next_entry_has_seen_and_nothing_else(store: Store) -> None:
    room = voices(store)
    first = await room.post(B, "one")
    blind = await room.post(A, "I have read nothing")
    assert not await saw(store, blind["id"], first["id"])
    page = await room.read(A)
    assert [one["body"] for one in page["entries"]] == ["one", "I have read nothing"]
    unread = await room.post(B, "two")
    sighted = await room.post(A, "I have read the first")
    assert await saw(store, sighted["id"], first["id"])
    assert not await saw(store, sighted["id"], unread["id"])
    assert (await event_of(store, sighted["id"])).causal_deps == ((await event_of(store, first["id"])).id,)
    # Another session of the same agent has read nothing.
    other = await room.post(Caller("ALPHA", "s-2"), "who am I?")
    assert not await saw(store, other["id"], first["id"])
    rest = await room.read(A, cursor=page["next"])
    assert [one["body"] for one in rest["entries"]] == ["two", "I have read the first", "who am I?"]
    assert (await room.read(A, cursor=rest["next"]))["entries"] == []
    assert await saw(store, (await room.post(A, "now"))["id"], unread["id"])
    assert (await event_of(store, (await room.post(A, "and again"))["id"])).causal_deps == (), (
        "it is in its clock"
    )


async def test_what_is_remembered_of_a_long_reading_is_bounded(store: Store) -> None:
    room = voices(store)
    posted = [await room.post(B, f"line {n}") for n in range(MOST_SEEN + 5)]
    newest = await room.read(B, limit=2)
    assert (len(newest["entries"]), newest["more"]) == (2, False), "nothing is newer"
    first = await room.read(B, cursor="0", limit=len(posted) - 1)
    assert first["more"], "there is one more at `next`"
    rest = await room.read(B, cursor=first["next"], limit=1)
    assert ([one["body"] for one in rest["entries"]], rest["more"]) == ([f"line {len(posted) - 1}"], False)
    await room.read(A, cursor="0", limit=500)
    last = await room.post(A, "done")
    assert len((await event_of(store, last["id"])).causal_deps) == MOST_SEEN
    assert await saw(store, last["id"], posted[0]["id"]), "the rest is in the clocks of these"


async def test_a_reply_names_what_it_is_to(store: Store) -> None:
    room = voices(store)
    asked = await room.post(B, "where?")
    for place in (asked["id"], f"#{asked['number']}", f"m{asked['number']}", str(asked["number"])):
        told = await room.post(A, "here", in_reply_to=place)
        row = await store.read(lambda tx, id=told["id"]: tx.one(Q.message, id=id))  # type: ignore[misc]
        assert row["in_reply_to"] == asked["id"]
        assert await saw(store, told["id"], asked["id"])
    for body, reply, fault in (
        ("x", "#99", Fault.UNKNOWN),
        ("x", "nothing", Fault.UNKNOWN),
        ("  ", None, Fault.MALFORMED),
        ("x" * 1001, None, Fault.MALFORMED),
    ):
        with pytest.raises(Refusal) as refused:
            await room.post(A, body, in_reply_to=reply)
        assert refused.value.fault is fault


async def test_agents_set_agents_to_work_by_the_rooms_rule(store: Store) -> None:
    quiet = voices(store, Rules(agents=RULES.agents))
    told = await quiet.post(A, "@BETA please look")
    assert (told["asked"], await jobs_of(store, told["id"])) == ([], [])
    assert "`room.agent_mentions` is off" in told["why"]
    room = voices(store)
    for _ in range(2):
        told = await room.post(A, "@BETA and @ALPHA please look")
        assert (told["asked"], await jobs_of(store, told["id"])) == (["BETA"], ["BETA"])
        assert told["why"] == "BETA is switched off, so its turn is skipped."
    over = await room.post(A, "@BETA once more")
    assert (over["asked"], await jobs_of(store, over["id"])) == ([], [])
    assert "`/continue`" in over["why"]
    held = await store.write(hop_limit.release)
    assert [(one.message_id, one.agents) for one in held] == [(over["id"], ("BETA",))]
    # An answer to an advisory sets nobody to work.
    await store.write(hop_limit.reset)
    advice, _ = await store.write(
        lambda tx: ledger.put_message(
            tx, ledger.NewMessage("RELAY", Kind.ADVISORY, "Keep off.", 1.0, lane=ledger.cycle_lane("x"))
        )
    )
    answered = await room.post(A, "@BETA you go", in_reply_to=advice.id)
    assert answered["asked"] == [] and "advisory" in answered["why"]
    for body, asked, said in (
        ("hello", [], "names no agent with @NAME"),
        ("@GAMMA look", [], "@GAMMA is not an agent of this room"),
        ("@BETA and @GAMMA look", ["BETA"], "@GAMMA is not an agent of this room"),
        ("@ALPHA myself", [], "only you"),
    ):
        told = await room.post(A, body, client_id=body)
        assert told["asked"] == asked and said in told["why"], body
        assert await room.post(A, body, client_id=body) == told, "the same again is answered the same"
    await store.write(hop_limit.reset)
    assert "why" not in await room.post(B, "@ALPHA please look"), "who is named is asked, and is there"
    await store.write(lambda tx: tx.execute(Q.set_paused, name="ALPHA", paused=1))
    waits = await room.post(B, "@ALPHA later")
    assert (waits["asked"], waits["why"]) == (["ALPHA"], "ALPHA is paused, so its turn waits for `/resume`.")


async def test_a_person_is_who_comes_as_one(store: Store) -> None:
    room = voices(store)
    told = await room.post(ANN, "what now?")
    assert await store.read(lambda tx: tx.one(Q.cycle, message_id=told["id"])) is not None
    assert "the room decides who answers" in told["why"]
    asked = await room.post(ANN, "@BETA go")
    assert asked["asked"] == ["BETA"]
    row = await store.read(lambda tx: tx.one(Q.message, id=told["id"]))
    assert row["kind"] == "human"
    told = await room.post(Caller("ALPHA", "s", "person"), "I am a person")
    row = await store.read(lambda tx: tx.one(Q.message, id=told["id"]))
    assert row["kind"] == "agent", "who only says so is none"


async def test_who_is_there(store: Store) -> None:
    room = voices(store)
    await store.write(lambda tx: tx.execute(Q.set_paused, name="BETA", paused=1))
    await room.post(ANN, "@ALPHA go")
    told = await room.present()
    shown = {one["name"]: one for one in told["agents"]}
    assert (shown["ALPHA"]["queued"], shown["ALPHA"]["paused"]) == (1, False)
    assert (shown["BETA"]["enabled"], shown["BETA"]["paused"]) == (False, True)
    assert [(one["name"], one["agent_type"], one["locks"]) for one in told["visitors"]] == [
        ("root-claude", "claude-code", 1)
    ]
    assert told["people"] == ["ann", "dee kay"]


async def test_who_is_here_without_being_the_rooms_reads_for_itself(store: Store) -> None:
    room, beth = voices(store), Caller("root-claude", "s-r", "claude-code")
    await room.post(ANN, "hello")
    alone = "@root-claude works on its own: the room does not start it. It reads m{} with its next look at the room"
    for caller, body, asked, said, never in (
        (A, "@root-claude look", [], alone, "no agent"),
        (A, "@BETA and @Root-Claude look", ["BETA"], alone, "not an agent"),
        (A, "@ann look", [], "@ann is a person, not an agent: people read the room themselves.", "who"),
        (A, "@Dee Kay, look", [], "@dee kay is a person, not an agent", "who"),
        (
            A,
            "@GAMMA and @ann",
            [],
            "@GAMMA is not an agent of this room: `who` lists them.",
            "names no agent",
        ),
        (ANN, "@root-claude look", [], alone, "decides who answers"),
        (ANN, "@dee kay look", [], "It is for dee kay; no agent is asked.", "the room decides"),
        (ANN, "@ann that is me", [], "the room decides who answers", "no agent is asked"),
        (ANN, "@stranger look", [], "the room decides who answers", "no agent is asked"),
        (beth, "@root-claude myself", [], "only you", "works on its own"),
    ):
        told = await room.post(caller, body)
        assert told["asked"] == asked and said.format(told["number"]) in told["why"], body
        assert never not in told["why"], told["why"]
        cycle = await store.read(lambda tx, id=told["id"]: tx.one(Q.cycle, message_id=id))  # type: ignore[misc]
        alone_asked = body in ("@ann that is me", "@stranger look")
        assert (cycle is None) == (not alone_asked), "who names a visitor or a person asks nobody else"


async def test_a_person_passes_for_nobody_who_is_here(store: Store) -> None:
    room = voices(store)
    for name in ("dee k\u0430y", "DEE_KAY"):
        with pytest.raises(Refusal, match="dee kay, who is in this room"):
            await room.post(Caller(name, "p-1", "person", person=True), "hi")
    assert (await room.post(Caller("Dee Kay", "p-2", "person", person=True), "hi"))["success"]


async def test_who_wants_only_what_is_for_him_gets_that_and_has_seen_no_more(store: Store) -> None:
    room = voices(store, RULES)
    mine = await room.post(A, "I begin with the cart.")
    # Another lane, of which nothing else is shown.
    other = await room.post(Caller("GAMMA", "s-g"), "I do @ALPHABET soup; mail me@alpha.example.")
    await room.post(B, "Nothing for anybody.")
    named = await room.post(B, "@alpha, which lines?")
    answer = await room.post(ANN, "Fine.", in_reply_to=mine["id"])
    everybody = await room.post(ANN, "@all: freeze at noon.")
    await room.post(A, "I said @ALPHA myself.")
    for_me = [named["id"], answer["id"], everybody["id"]]

    def ids(page: dict[str, Any]) -> list[str]:
        return [one["id"] for one in page["entries"]]

    page = await room.read(A, to_me=True)
    assert ids(page) == for_me and page["more"] is False
    first = await room.read(A, to_me=True, cursor="0", limit=2)
    assert ids(await room.read(A, to_me=True, cursor=first["next"], limit=2))[-1:] == for_me[2:]
    assert first["more"] is True and ids(first) == for_me[: len(ids(first))]
    later = await room.post(A, "Seen.")
    assert await saw(store, later["id"], named["id"])
    assert not await saw(store, later["id"], other["id"])
    # A whole read afterwards counts what was left out.
    await room.read(A)
    last = await room.post(A, "All of it.")
    assert await saw(store, last["id"], other["id"])
