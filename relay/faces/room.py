"""The room and the airspace for callers of operations, from the database alone: with a daemon or without one.

Invariant: nothing here needs a running part. What only a running daemon knows is left out, and not guessed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay.airspace.advisories import intents, table, wording
from relay.config.settings import LiveSettings, Settings
from relay.coordination.sessions import Sessions
from relay.faces.room_locks import RoomHolds
from relay.model import Caller, Fault, Refusal
from relay.model.actions import DeclareIntent
from relay.model.pages import PAGE
from relay.room.callers import Callers
from relay.room.dispatch.roster import Member, Policy, Roster
from relay.room.journal.admission_rules import Rules
from relay.store.ports import Store, Tx

if TYPE_CHECKING:
    from relay.airspace.live.service import AirspaceService

Json = dict[str, Any]
#: Entries of the airspace's answer: what a caller can take in, and far more than a room has standing.
_MOST_PAIRS = 500


def rules_of(settings: Settings) -> Rules:
    """The rules for admitting a message, from the configuration. `Roster` adds the agents."""
    jitter = settings.jitter
    return Rules(
        max_entry_bytes=settings.workspace.max_entry_bytes,
        busy=jitter.busy,
        medium=jitter.medium,
        busy_s=jitter.busy_s,
        medium_s=jitter.medium_s,
        quiet_s=jitter.quiet_s,
        hop_limit=settings.room.hop_limit,
        agent_mentions=settings.room.agent_mentions,
    )


def roster_of(settings: Settings) -> Roster:
    """The agents of the configuration, in a process that neither probes nor runs them."""
    members = {
        agent.name: Member(
            agent.name, agent.kind, Policy(agent.name), agent.preset, agent.model, enabled=agent.enabled
        )
        for agent in settings.agents
    }
    return Roster(members, rules_of(settings))


class RoomService(Callers):
    """The room as an operation asks for it: post, read, who is here, what the airspace says."""

    def __init__(self, store: Store, settings: LiveSettings, sessions: Sessions, roster: Roster) -> None:
        super().__init__(store, roster, RoomHolds())
        self._settings, self._sessions = settings, sessions

    async def who(self, caller: Caller) -> Json:
        """`{you, agents, visitors, people, sessions}`."""
        you = {
            "agent_id": caller.agent,
            "session_id": caller.session,
            "agent_type": caller.agent_type,
            "person": caller.person,
            "scopes": sorted(caller.scopes),
        }
        # The call itself makes the caller's session known, so it comes first.
        sessions = list(await self._sessions.list(caller, limit=PAGE))
        return {"you": you, **await self.present(), "sessions": sessions}

    async def airspace(self, caller: Caller) -> Json:
        """`{enabled, advisories, near: [{agents, level}], intents: {agent: [path]}}`."""

        async def work(tx: Tx) -> Json:
            standing = await table.load_state(tx)
            declared = await intents.declared(tx, await tx.now())
            near = [
                {"agents": list(pair), "level": track.level.word}
                for pair, track in list(standing.tracks.items())[:_MOST_PAIRS]
                if track.level
            ]
            return {
                "enabled": self._settings.current.airspace.enabled,
                "advisories": [wording.shown(advisory) for advisory in standing.advisories.values()],
                "near": near,
                "intents": {agent: sorted(paths) for agent, paths in declared.items()},
            }

        return await self._store.read(work)


class IntentService:
    """The intents of sessions: what they are about to change."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        airspace: AirspaceService | None = None,
    ) -> None:
        """`airspace` knows who changes which files now; only a running room has it."""
        self._store, self._settings, self._airspace = store, settings, airspace

    async def declare(self, caller: Caller, action: DeclareIntent) -> Json:
        if not self._settings.current.airspace.enabled:
            message, fix = "The airspace is switched off.", "A person sets `airspace.enabled` to true."
            raise Refusal(message, fix, Fault.REFUSED, "airspace_off")

        try:
            declared = await self._store.write(lambda tx: intents.declare_own(tx, action, caller.session))
        except Refusal as refusal:
            raise Refusal(refusal.message, refusal.fix, Fault.MALFORMED, "bad_path") from None
        in_hand = [] if self._airspace is None else self._airspace.in_hand(caller.agent, declared)
        return {"success": True, "paths": list(declared), **({"in_hand": in_hand} if in_hand else {})}
