"""What Codex' app-server may ask while it works, and who answers.

Invariants: every question is answered, and none is waited for: in relay's turns the program asks nobody
(`approvalPolicy: never`), so what it asks all the same is not done, unless the turn's own permissions and the guard
allow it; an answer is for one call only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from relay.agents.app_server.peer import JSON, Refused
from relay.agents.setup.spec import AgentSpec, Permissions
from relay.base.files import inside
from relay.model import Guard, Location, Turn

#: Of each question the answer that says no.
DECLINED: Mapping[str, JSON] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "item/permissions/requestApproval": {"permissions": {}, "scope": "turn"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline", "content": None, "_meta": None},
    "execCommandApproval": {"decision": "denied"},
    "applyPatchApproval": {"decision": "denied"},
}
ACCEPTED: JSON = {"decision": "accept"}


class Approvals:
    """`changes`: of each file change that was told, by its item's id, the files. `note` writes to the turn's log."""

    def __init__(
        self,
        spec: AgentSpec,
        turn: Turn,
        permissions: Permissions,
        guard: Guard,
        changes: Mapping[str, tuple[str, ...]],
        note: Callable[[str], None],
    ) -> None:
        self._spec, self._permissions, self._guard = spec, permissions, guard
        self._changes, self._note = changes, note
        self._cwd = turn.cwd or spec.cwd
        self._root, self._session = turn.root or self._cwd, turn.room_session or None

    async def answer(self, method: str, params: JSON) -> JSON:
        """Raises Refused for a question that is not known."""
        if method not in DECLINED:
            raise Refused(f"relay knows no {method}")
        if method == "item/fileChange/requestApproval":
            against = await self._against(params)
        elif method == "item/commandExecution/requestApproval":
            free = self._permissions is Permissions.SKIP_ALL_CHECKS
            against = "" if free else "what needs a person's consent is not done in this turn"
        else:
            against = "nobody is asked in this turn"
        if not against:
            return ACCEPTED
        what = params.get("command") or params.get("reason") or params.get("message") or method
        self._note(f"refused: {what}: {against}")
        return DECLINED[method]

    async def _against(self, params: JSON) -> str:
        """What stands against a file change; empty = nothing."""
        if self._permissions is Permissions.READ_ONLY:
            return "it may only read in this turn"
        paths = self._changes.get(str(params.get("itemId")), ())
        if not paths or params.get("grantRoot"):
            return "it is not said what it would change"
        for path in paths:
            relative = await asyncio.to_thread(inside, self._root, str(self._cwd / path))
            if relative is None:
                if self._permissions is not Permissions.SKIP_ALL_CHECKS:
                    return f"{path} is outside of the turn's folder"
                continue
            decision = await self._guard.decide(
                self._spec.name, Location(relative, None, True), self._session
            )
            if decision.refused:
                return decision.reason
        return ""
