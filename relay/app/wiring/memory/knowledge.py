"""The knowledge of a running room: the follower that makes it of the log, the roles by which some of it is read, and
what the local model finds in messages.

Invariants:
- what stood in the log before is taken in in small transactions with pauses, in the order of the log, so a room with
  a long past answers all the while; what happens meanwhile comes behind it;
- the model reads a message once, and nothing that was said while it was off; nothing waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial

from relay.config.settings import LiveSettings
from relay.log import events, follow
from relay.log.events import Event, Lane
from relay.memory import given
from relay.memory.knowledge.entry import Extractor, Standing
from relay.memory.knowledge.extractors import POSTED, extract, standing_of
from relay.memory.knowledge.ingest import KnowledgeFollower, take_in
from relay.memory.knowledge.line_forms import Statement
from relay.memory.knowledge.model_extractor import LocalExtractor
from relay.memory.knowledge.quotable import texts_by
from relay.memory.knowledge.recording import model_key, record
from relay.memory.knowledge.visibility import put_roles
from relay.memory.prompt import without_quotes
from relay.model.actions import COMMAND_WORD
from relay.store.ports import Store, Tx

#: Events of one transaction of the past, and the pause behind each, in seconds.
BATCH, PAUSE_S = 100, 0.02
#: Where the model stands in the log: a setting, since no archive needs to wait for it; empty while it is off.
BY_MODEL = "knowledge_model"
#: Seconds between two looks without a wake-up; characters of a message that may say something.
LOOK_S, LEAST_READ = 60.0, 40


class RoomKnowledge:
    """Runs the follower. `settings` know the agents' roles, and whether the model reads."""

    def __init__(self, store: Store, settings: LiveSettings) -> None:
        self._store, self._settings = store, settings
        self.follower = KnowledgeFollower()

    async def run(self) -> None:
        """Follow the log for ever, from its beginning at the first start."""
        await self.apply()
        read = BATCH
        while read:
            read, _ = await take_in(self._store, batch=BATCH)
            await asyncio.sleep(PAUSE_S)
        await follow.run(self._store, self.follower)

    async def read_with_model(self) -> None:
        """With `memory.llm_extract` let the local model read what people and agents say, a message after the other.
        Runs for ever."""
        extractor = LocalExtractor(lambda: self._settings.current.dispatcher)
        with closing(self._store.wakeup((POSTED,))) as wakeup:
            while True:
                unread = await self._store.read(_unread)
                if unread is None:
                    await wakeup.wait(LOOK_S)
                    continue
                event, text = unread
                found = await extractor(text) if text else []
                await self._store.write(partial(_note_found, event=event, found=found))

    async def apply(self) -> None:
        """Take over the agents' roles of the configuration in use, and whether the model reads."""
        now = self._settings.current
        roles = {agent.name: agent.role for agent in now.agents if agent.role is not None}
        await self._store.write(partial(_apply, roles=roles, by_model=now.memory.llm_extract))


async def _apply(tx: Tx, *, roles: Mapping[str, str], by_model: bool) -> None:
    await put_roles(tx, roles)
    if by_model is not bool(await events.setting(tx, BY_MODEL)):
        await events.put_setting(tx, BY_MODEL, str(await events.last_pos(tx)) if by_model else "")


async def _unread(tx: Tx) -> tuple[Event, str] | None:
    """The next message that the model has not read, with what it is to read of it; None: none, or it is off."""
    after = await events.setting(tx, BY_MODEL)
    read = await events.read_after(tx, int(after), types=(POSTED,), limit=1) if after else []
    return (read[0], await _text(tx, read[0])) if read else None


async def _text(tx: Tx, event: Event) -> str:
    """What a person or an agent says in a message, without what it quotes; empty where that is no more than a
    greeting, a command, or has lines of a form, which say themselves what they mean and who may read it."""
    message = event.outputs["message"]
    body = message["body"]
    if message["kind"] not in ("human", "agent") or COMMAND_WORD.match(body) or extract(event).drafts:
        return ""
    told = await texts_by(tx, event) if message["kind"] == "agent" else ()
    own = (line for line in without_quotes(body, told).splitlines() if not line.lstrip().startswith(">"))
    text = "\n".join(own).strip()
    return text if len(text) >= LEAST_READ else ""


async def _note_found(tx: Tx, *, event: Event, found: Sequence[Statement]) -> None:
    """Record what the model found in a message, and that the message was read; nothing where it was turned off
    meanwhile, or the memory of the message forgotten."""
    if not await events.setting(tx, BY_MODEL):
        return
    memory = await given.memory_of_event(tx, event.id)
    if found and not (memory is not None and memory.forgotten):
        await record(
            tx,
            Lane(event.session, f"knowledge:{event.id[:16]}", short=True),
            event.outputs["message"]["speaker"],
            found,
            extractor=Extractor.LLM,
            cause=[event.id],
            source_key=model_key(event.id),
            unverified=standing_of(event.outputs["message"]) is Standing.UNVERIFIED,
        )
    await events.put_setting(tx, BY_MODEL, str(event.pos))
