"""API keys: each bound to one identity, with scopes and an end (docs/coordination.md, "Keys").

Invariants:
- the database holds the SHA-256 of a key and nothing that it could be made from: a key is 256 random bits, for
  which a slow hash adds nothing; its text is in the answer to its creation alone, in no event and no log line;
- a key is found by its public id and compared by digest, in constant time;
- a revoked or expired key is refused within `LOOK_S`, in every process: no look is trusted for longer.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from relay.access.page_sessions import digest
from relay.base.durations import iso, parse_amounts
from relay.config.command_line import command
from relay.log import events
from relay.log.encoding import dumps
from relay.log.events import Lane, NewEvent
from relay.model import ADMIN, RESERVED_NAMES, SCOPES, Caller, Fault, Json, Refusal
from relay.model.speaker_names import MAX_AGENT_NAME, clean_name, is_reserved, reads_like
from relay.store.ports import Queries, Row, Store, StoreBusy, Tx

Q = Queries(Path(__file__).parent)

CREATED = "key.created"
REVOKED = "key.revoked"
#: Seconds for which a look at a key is trusted: so soon holds a revocation of another process.
LOOK_S = 0.5
#: Seconds between two notes that a key is in use: not at every request, since that is a write.
USED_EVERY_S = 60.0
#: Keys that a list shows, and that one process remembers its looks at.
_MOST_SHOWN = 1000
_MOST_KEPT = 1000

_KEY = re.compile(r"rk_(?P<id>[0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_ID = re.compile(r"(?:rk_)?(?P<id>[0-9a-f]{16})(?:_[A-Za-z0-9_-]*)?")
_SPAN = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[smhdw])")

#: The longest that a key that ends may live: ten years. A longer one is `never`.
_LONGEST_S = 3650 * 86400.0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept. Times are Unix seconds; `expires_at` None = never."""

    id: str
    digest: str
    identity: str
    agent_type: str
    scopes: frozenset[str]
    note: str
    created_by: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None
    used_at: float | None

    @classmethod
    def of_row(cls, row: Row) -> ApiKey:
        return cls(**{**row, "scopes": frozenset(json.loads(row["scopes"]))})

    def state(self, now: float) -> str:
        """good | revoked | expired."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "good"

    def as_json(self, now: float) -> Json:
        """The key for people: all but its digest."""
        return {
            "id": self.id,
            "identity": self.identity,
            "agent_type": self.agent_type,
            "scopes": sorted(self.scopes),
            "note": self.note,
            "created_by": self.created_by,
            "created_at": iso(self.created_at),
            "expires_at": iso(self.expires_at),
            "revoked_at": iso(self.revoked_at),
            "used_at": iso(self.used_at),
            "state": self.state(now),
        }


class Keys:
    """The keys of one room. `agents` gives the names of the configured agents; `ticks` is a monotonic clock."""

    def __init__(
        self,
        store: Store,
        agents: Callable[[], Collection[str]] = tuple,
        *,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._agents, self._ticks = store, agents, ticks
        #: What the database said of a key, and until when (monotonic) that is trusted.
        self._looks: dict[str, tuple[ApiKey, float]] = {}

    # -- callers with a key

    async def find(self, text: str) -> ApiKey | None:
        """The good key of this text; None when there is none, or it is over."""
        match = _KEY.fullmatch(text)
        if match is None:
            return None
        text_digest = digest(text)
        key = self._trusted(match["id"])
        if key is None or not hmac.compare_digest(text_digest, key.digest):
            key = await self._look(match["id"], text_digest)
        return key

    async def alive(self, key_id: str) -> bool:
        """Is the key of this id still good?"""
        return (self._trusted(key_id) or await self._look(key_id, None)) is not None

    def _trusted(self, key_id: str) -> ApiKey | None:
        """The key of this id, if the last look at it is still trusted."""
        key, until = self._looks.get(key_id, (None, 0.0))
        return key if self._ticks() < until else None

    async def let_in(self, tx: Tx, caller: Caller) -> Refusal | None:
        """As `relay.model.ports.Credentials` says."""
        if caller.key is None:
            return None
        async with tx.as_room():
            row = await tx.one(Q.api_key, id=caller.key)
        state = "gone" if row is None else ApiKey.of_row(row).state(await tx.now())
        if state == "good":
            return None
        message = f"The key of {caller.agent} is {state}: what it asked for is no longer granted."
        return Refusal(message, "Ask a person for a new key, and ask again.", Fault.FORBIDDEN, "bad_key")

    async def _look(self, key_id: str, text_digest: str | None) -> ApiKey | None:
        began = self._ticks()

        async def work(tx: Tx) -> tuple[ApiKey | None, float]:
            row = await tx.one(Q.api_key, id=key_id)
            return (None if row is None else ApiKey.of_row(row)), await tx.now()

        key, now = await self._store.read(work)
        if key is None or key.state(now) != "good":
            self._looks.pop(key_id, None)
            return None
        if text_digest is not None and not hmac.compare_digest(text_digest, key.digest):
            return None
        # Counted from before the look: what was revoked during it is found in time.
        left = LOOK_S if key.expires_at is None else min(LOOK_S, key.expires_at - now)
        if key_id not in self._looks and len(self._looks) >= _MOST_KEPT:
            self._looks.clear()
        self._looks[key_id] = key, began + left
        if text_digest is not None and (key.used_at is None or key.used_at <= now - USED_EVERY_S):
            await self._note_use(key_id)
        return key

    async def _note_use(self, key_id: str) -> None:
        async def work(tx: Tx) -> None:
            now = await tx.now()
            await tx.execute(Q.use_key, id=key_id, now=now, before=now - USED_EVERY_S)

        try:
            await self._store.write(work)
        except (StoreBusy, self._store.transient):
            return  # a note for people only: the next use makes it

    # -- a person's acts

    async def create(
        self,
        caller: Caller,
        identity: str,
        *,
        agent_type: str = "agent",
        scopes: Collection[str] | None = None,
        expires: str = "never",
        note: str = "",
    ) -> Json:
        """A new key: `{success, id, key, ...}`, its text this once. Raises Refusal."""
        if agent_type == "person" and not caller.person:
            message = f"Only a person can make a person's key, and {caller.agent} is an agent."
            raise Refusal(message, "Leave the type out, or ask a person.", Fault.FORBIDDEN)
        name = self._identity(identity, agent_type)
        allowed = _scopes(scopes)
        lives_s = span_s(expires)
        key_id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        text = f"rk_{key_id}_{secret}"

        async def work(tx: Tx) -> Json:
            now = await tx.now()
            key = {
                "id": key_id,
                "digest": digest(text),
                "identity": name,
                "agent_type": agent_type,
                "note": note,
            }
            ends = None if lives_s is None else now + lives_s
            of = {
                "scopes": dumps(sorted(allowed)),
                "created_by": caller.agent,
                "now": now,
                "expires_at": ends,
            }
            await tx.execute(Q.put_key, **key, **of)
            return await _recorded(tx, CREATED, caller, key_id, now)

        shown = await self._store.write(work)
        return {"success": True, "key": text, **shown}

    async def list(self, caller: Caller) -> list[Json]:
        """Every key, latest first."""

        async def work(tx: Tx) -> list[Json]:
            now = await tx.now()
            rows = await tx.all(Q.api_keys, limit=_MOST_SHOWN)
            return [ApiKey.of_row(row).as_json(now) for row in rows]

        return await self._store.read(work)

    async def revoke(self, caller: Caller, key_id: str) -> Json:
        """Take a key back, by its public id (or its text). Again is as good as once. Raises Refusal."""
        match = _ID.fullmatch(key_id.strip())
        if match is None:
            fix = f"It has 16 hexadecimal digits; {command('keys list')} shows them."
            raise Refusal("That is not the id of a key.", fix, Fault.MALFORMED)

        async def work(tx: Tx) -> Json:
            now = await tx.now()
            if await tx.execute(Q.revoke_key, id=match["id"], now=now):
                return await _recorded(tx, REVOKED, caller, match["id"], now)
            row = await tx.one(Q.api_key, id=match["id"])
            if row is None:
                fix = f"{command('keys list')} shows them."
                raise Refusal("There is no key with that id.", fix, Fault.UNKNOWN)
            return ApiKey.of_row(row).as_json(now)

        shown = await self._store.write(work)
        self._looks.pop(match["id"], None)
        return {"success": True, **shown}

    def _identity(self, identity: str, agent_type: str) -> str:
        """The name as the room shows it. Raises Refusal."""
        try:
            name = clean_name(identity, most=MAX_AGENT_NAME)
        except ValueError as error:
            raise Refusal(str(error), "Take another name.", Fault.MALFORMED, "bad_name") from None
        if is_reserved(name, ()):
            taken = ", ".join(sorted(RESERVED_NAMES))
            message = f"{name} is the room's own name, or reads like it."
            raise Refusal(message, f"Take another name than {taken}.", Fault.MALFORMED, "reserved")
        agents = [*self._agents()]
        alike = name if name in agents else next((agent for agent in agents if reads_like(name, agent)), None)
        if alike is not None and alike != name:
            message = f"{name} reads like the agent {alike}."
            raise Refusal(message, f"For that agent, write {alike}.", Fault.MALFORMED, "reserved")
        if alike is not None and agent_type == "person":
            message = f"{name} is an agent, not a person."
            raise Refusal(message, "Leave the type out, or take another name.", Fault.MALFORMED, "reserved")
        return name


async def _recorded(tx: Tx, type: str, caller: Caller, key_id: str, now: float) -> Json:
    """Record what was done to a key; it as it stands now."""
    row = await tx.one(Q.api_key, id=key_id)
    assert row is not None
    shown = ApiKey.of_row(row).as_json(now)
    # `used_at` is a note, no fact of this event.
    outputs = {"key": {name: value for name, value in shown.items() if name != "used_at"}, "by": caller.agent}
    await events.append(tx, NewEvent(type, Lane(caller.session, caller.agent), outputs=outputs))
    return shown


def _scopes(scopes: Collection[str] | None) -> frozenset[str]:
    if scopes is None:
        return SCOPES
    unknown = sorted(set(scopes) - SCOPES - {ADMIN})
    if unknown or not scopes:
        nothing = "A key without a scope allows nothing."
        message = f"There is no scope {unknown[0][:40]!r}." if unknown else nothing
        fix = f"Scopes: {', '.join([*sorted(SCOPES), ADMIN])}."
        raise Refusal(message, fix, Fault.MALFORMED)
    return frozenset(scopes)


def span_s(text: str) -> float | None:
    """The seconds of a span like `30d`, `12h`, `45m`; None for `never`. Raises Refusal."""
    word = text.strip().lower()
    if word == "never":
        return None
    match = _SPAN.fullmatch(word)
    seconds = parse_amounts(word) if match else 0.0
    if not 0 < seconds <= _LONGEST_S:
        message = f"{text[:40]!r} is not a lifetime for a key."
        fix = "Write 30d, 12h, 45m or never; ten years at most."
        raise Refusal(message, fix, Fault.MALFORMED)
    return seconds
