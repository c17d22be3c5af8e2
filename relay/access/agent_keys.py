"""The keys that the daemon gives its agents, so that what their programs ask is asked as themselves.

Invariants: a key's text is in this process and in the environment of the agent's own programs, nowhere else; it
lives as long as the daemon that made it. Those of a daemon that died go at the next start of the relay of its name,
or of one that knows it to be dead. A key of a daemon that may live is never taken back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import structlog

from relay.access.keys import REVOKED, Keys
from relay.log import events
from relay.log.events import Lane, NewEvent
from relay.model import STEWARD, Caller, Refusal
from relay.store.ports import Queries, Store, Tx

log = structlog.get_logger(__name__)
Q = Queries(Path(__file__).parent)
#: Who makes them: the room itself.
MAKER = Caller(STEWARD, "daemon", agent_type="room", person=True)


class AgentKeys:
    """`holder` signs the keys of this daemon. `member`: its name among the relays of one database, which no other
    living one has; empty where the room has one relay."""

    def __init__(self, store: Store, keys: Keys, holder: str, member: str = "") -> None:
        self._store, self._keys, self._holder, self._member = store, keys, holder, member
        self._made: dict[str, tuple[str, str]] = {}

    @property
    def _note(self) -> str:
        return json.dumps([self._member, self._holder]) if self._member else self._holder

    def of(self, agent: str) -> str:
        """The key of an agent; empty while it has none."""
        return self._made.get(agent, ("", ""))[1]

    async def provide(self, agents: Mapping[str, str]) -> None:
        """A key for each agent (by name, its type) that has none yet, and none for others any more."""
        gone = [self._made.pop(name)[0] for name in self._made.keys() - agents.keys()]
        if gone:
            await self._store.write(lambda tx: _forget(tx, gone))
        for name, agent_type in agents.items():
            if name in self._made:
                continue
            try:
                made = await self._keys.create(MAKER, name, agent_type=agent_type, note=self._note)
            except Refusal as error:
                # The room is worth more than one agent's own key: its programs ask with the room's.
                log.warning("no key for an agent", agent=name, reason=error.message)
                continue
            self._made[name] = made["id"], made["key"]

    async def clear(self, is_dead: Callable[[str], bool]) -> None:
        """Take back those of daemons that are gone, which a kill has left behind: of earlier ones of this name, since
        this is before the first of its own, and of holders of which `is_dead` says it."""

        def gone_with(note: str) -> bool:
            member, holder = _signed(note)
            return is_dead(holder) or bool(member and member == self._member)

        rows = await self._store.read(lambda tx: tx.all(Q.keys_made_by, maker=STEWARD))
        gone = [row["id"] for row in rows if gone_with(row["note"])]
        if gone:
            await self._store.write(lambda tx: _forget(tx, gone))

    async def close(self) -> None:
        """Take back those of this daemon."""
        made, self._made = self._made, {}
        if made:
            await self._store.write(lambda tx: _forget(tx, [id for id, _ in made.values()]))


def _signed(note: str) -> tuple[str, str]:
    """The member and the holder that a key's note names. Earlier relays wrote the holder alone."""
    try:
        member, holder = json.loads(note)
    except (ValueError, TypeError):
        return "", note
    return (member, holder) if isinstance(holder, str) else ("", note)


async def _forget(tx: Tx, ids: Iterable[str]) -> None:
    """They are of no use to anybody to look back at: the events tell that they were."""
    for id in ids:
        row = await tx.one(Q.forget_key, id=id, maker=STEWARD)
        if row is not None:
            outputs = {"key": {"id": id, "identity": row["identity"]}, "by": STEWARD}
            await events.append(tx, NewEvent(REVOKED, Lane(MAKER.session, MAKER.agent), outputs=outputs))
