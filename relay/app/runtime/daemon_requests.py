"""Requests of a command to the daemon of its room, on this machine. Blocking."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import ProxyHandler, Request, build_opener

from relay.base.files import read_regular
from relay.config.settings import Settings


def state_of(settings: Settings) -> dict[str, Any] | None:
    """What the running daemon says of itself (`.relay/state.json`); None: there is none, or it is damaged."""
    try:
        state: dict[str, Any] = json.loads(read_regular(settings.state_path))
    except (OSError, ValueError):
        return None
    return state


def ask_daemon(url: str, *, timeout_s: float, key: str = "", body: dict[str, Any] | None = None) -> Any:
    """The JSON that it answers to a POST of `body`, or without one to a GET. Raises HTTPError for a refusal, OSError,
    HTTPException, ValueError."""
    headers = {"Content-Type": "application/json", **({"X-API-Key": key} if key else {})}
    request = Request(url, None if body is None else json.dumps(body).encode(), headers)
    # The room is on this machine: a proxy from the environment has no business here.
    with build_opener(ProxyHandler({})).open(request, timeout=timeout_s) as answer:
        return json.load(answer)
