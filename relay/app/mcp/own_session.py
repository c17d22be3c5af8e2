"""The attached session that a `relay mcp` belongs to: what the program's agent locks is then its session's own.

Claude Code tells its servers in which session they are (CLAUDE_CODE_SESSION_ID). In a checkout that is attached
(docs/attach.md), with nobody named by the environment, such a server speaks as that session. Codex tells its servers
nothing, and so they keep the name of their entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path

from relay.app.mcp.parent_process import CLIENT_SESSION, recorded
from relay.app.runtime.daemon_requests import ask_daemon, author_of, state_of
from relay.app.runtime.identity import Identity
from relay.base.git_checkouts import attached_record, checkout_of
from relay.config.settings import Settings
from relay.model import SESSION_ID

#: Seconds that the start waits for the room, which answers within some milliseconds.
ASKED_S = 1.0
#: The environment that names somebody else.
_NAMED = ("RELAY_AGENT_ID", "RELAY_SESSION_ID", "RELAY_API_KEY")


def as_attached(identity: Identity, settings: Settings, environ: Mapping[str, str], folder: Path) -> Identity:
    """Whom this process speaks for: the attached session that it is of, else `identity`. Blocking."""
    session = environ.get(CLIENT_SESSION, "")
    if any(environ.get(name, "").strip() for name in _NAMED) or not SESSION_ID.fullmatch(session):
        return identity
    checkout = checkout_of(settings.repo, folder)
    if checkout is None or not attached_record(settings.runtime_dir, checkout).is_file():
        return identity
    event = {"hook_event_name": "ServerStart", "session_id": session, "cwd": str(folder)}
    question = {"program": "claude", "event": event}
    try:
        state, (key, _) = state_of(settings) or {}, author_of(settings, "")
        told = ask_daemon(f"{state['url']}/api/sessions/hook", timeout_s=ASKED_S, key=key, body=question)
        agent, own = str(told["agent"]), str(told["session"])
    except (OSError, HTTPException, ValueError, KeyError):
        known = recorded(str(settings.runtime_dir), session)
        if known is None:
            return identity
        agent, own = known
    return replace(identity, agent=agent, session=own, process=False, agent_type="claude")
