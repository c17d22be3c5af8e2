"""The rights of a transaction on PostgreSQL: those of relay itself, or of the one agent that it works for.

Invariant: where the roles exist (relay/access/rights/postgres), nothing runs with more than the service's rights,
which end at row-level security, and an agent's transaction has that agent's rights only. Without the roles everything
runs as the user of the address, and `NONE` says so.

Within one shared address this is defence in depth: whoever has the address can take any role of its user.
(004, "Database Persistence"; docs/postgres.md.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from relay.model import ADMIN, Caller

#: Relay itself, and relay at work for one agent. Agents that connect by themselves are relay_agent
#: (relay/access/rights).
SERVICE, ACTING = "relay_service", "relay_acting"
#: The roles that this user can take and for which row-level security holds.
_ASK = """
SELECT coalesce(array_agg(rolname::text), '{}') FROM pg_roles
WHERE rolname IN ($2, $3) AND NOT rolsuper AND NOT rolbypassrls
  AND pg_has_role(session_user, oid,
    CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)
  AND has_table_privilege(oid, format('%I.events', $1::text), 'INSERT')
  AND (SELECT bool_and(relrowsecurity) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE n.nspname = $1 AND c.relkind = 'r')
"""


@dataclass(frozen=True, slots=True)
class Rights:
    """`held`: relay takes its own role; `acting`: and another one for its work for an agent."""

    held: bool
    acting: bool = False

    @property
    def start(self) -> str:
        """The first SQL of a new connection: it takes the service's role."""
        if not self.held:
            return ""
        return f"SET ROLE {SERVICE}" + (f"; SET relay.agent_role = '{ACTING}'" if self.acting else "")

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell a person where a role is missing."""
        return () if self.acting else (NOT_ACTING if self.held else NOT_HELD,)

    def become(self, actor: Caller | None) -> str:
        """The SQL that gives an open transaction this actor's rights only, until its end; '' keeps the service's.

        A person, and a caller with the scope `ADMIN`, may overrule agents, so they keep the service's.
        """
        if not self.acting or actor is None or actor.person or ADMIN in actor.scopes:
            return ""
        return (
            f"; SELECT set_config('relay.agent_id', {_quoted(actor.agent)}, true), "
            f"set_config('relay.session_id', {_quoted(actor.session)}, true); SET LOCAL ROLE {ACTING}"
        )


NONE = Rights(False)
NOT_HELD = (
    "row-level security is not enforced here: the roles relay_service and relay_acting are missing, or the user of "
    'the address may not take them, so everything runs with its own rights (docs/postgres.md, "Roles")'
)
NOT_ACTING = (
    "what relay does for an agent is not kept within that agent's rows here: the role relay_acting is missing, or "
    'the user of the address may not take it (docs/postgres.md, "Roles")'
)


async def rights_of(connection: Any, schema: str) -> Rights:
    """The rights that the user of this connection can take."""
    rights = await connection.fetchval(_ASK, schema, SERVICE, ACTING)
    return Rights(SERVICE in rights, {SERVICE, ACTING} <= set(rights))


def _quoted(text: str) -> str:
    """A SQL literal; `standard_conforming_strings` is on for every connection of ours."""
    return "'" + text.replace("'", "''") + "'"
