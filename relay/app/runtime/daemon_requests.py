"""Requests of a command to the daemon of its room, on this machine. Blocking."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from relay.base.files import read_regular
from relay.base.terminal_text import fail
from relay.config.command_line import script
from relay.config.settings import Settings

#: Seconds that the room may take: an action waits up to 20 s for its answer.
ANSWER_S = 30.0


def state_of(settings: Settings) -> dict[str, Any] | None:
    """What the running daemon says of itself (`.relay/state.json`); None: there is none, or it is damaged."""
    try:
        state: dict[str, Any] = json.loads(read_regular(settings.state_path))
    except (OSError, ValueError):
        return None
    return state


def agents_key() -> str:
    """The key of the agent whose turn started this command (RELAY_API_KEY); empty: a person did."""
    return os.environ.get("RELAY_API_KEY", "").strip()


def author_of(settings: Settings, person: str) -> tuple[str, dict[str, Any]]:
    """How a command that writes says whose it is: a key, and what its request says of the author. Within an agent's
    turn it is the agent's, else the room's token and the name of the `person`. Raises OSError."""
    if key := agents_key():
        return key, {}
    return read_regular(settings.token_path).decode().strip(), {"name": person}


def ask_daemon(
    url: str, *, timeout_s: float, key: str = "", body: dict[str, Any] | bytes | None = None, method: str = ""
) -> Any:
    """The JSON that it answers to a POST (or `method`) of `body` (bytes: as they are), or without one to a GET.
    Raises HTTPError for a refusal, OSError, HTTPException, ValueError."""
    kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
    headers = {"Content-Type": kind, **({"X-API-Key": key} if key else {})}
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    request = Request(url, data, headers, method=method or None)
    # The room is on this machine: a proxy from the environment has no business here.
    with build_opener(ProxyHandler({})).open(request, timeout=timeout_s) as answer:
        return json.load(answer)


def asked(
    settings: Settings,
    path: str,
    *,
    person: str = "",
    body: dict[str, Any] | bytes | None = None,
    as_json: bool = False,
    timeout_s: float = ANSWER_S,
    wrong: Collection[str] = (),
    method: str = "",
) -> Any:
    """What the running room answers a command that a `person` typed (empty: nobody is named). Where it answers
    nothing, or refuses it, the person is told why and the command ends: SystemExit 1, or 2 for wrong use. `wrong`:
    the codes of refusals that are wrong use; none = what the room cannot read."""
    state = state_of(settings)
    if state is None:
        sys.exit(fail(f"the room is not running; start it with {script('scripts/start.sh')}"))
    try:
        key, author = author_of(settings, person)
        told = body | author if isinstance(body, dict) and person else body
        return ask_daemon(f"{state['url']}{path}", timeout_s=timeout_s, key=key, body=told, method=method)
    except HTTPError as error:
        sys.exit(_told_no(error, as_json, wrong))
    except (OSError, HTTPException, ValueError, KeyError) as error:
        sys.exit(fail(f"the room at {state.get('url')} does not answer ({getattr(error, 'reason', error)})"))


def _told_no(error: HTTPError, as_json: bool, wrong: Collection[str]) -> int:
    """Say why the daemon refused a request; the command's exit code."""
    try:
        answer = json.loads(error.read())
        refusal = answer["error"]
        text = f"{refusal['message']} {refusal.get('fix') or ''}".strip()
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return fail(f"the room refused it: HTTP {error.code}")
    if as_json:
        print(json.dumps(answer))
    return fail(text, 2 if (refusal.get("code") in wrong if wrong else error.code == 400) else 1)
