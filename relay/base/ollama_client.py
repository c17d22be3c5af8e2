"""How relay speaks to a local model: one client of Ollama's, and what its failures mean.

Floor 1, since two wings need it (the dispatcher of the room, and a local model as an agent).

Invariant: nothing here blocks the event loop or costs anything before it is needed. The `ollama` package
pulls httpx and a TLS context (half a second on a slow machine), so it is imported at first use, in a
thread. The client has no timeout of its own: the caller has one deadline for everything.
"""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ssl import SSLContext

    from ollama import AsyncClient

DEFAULT_HOST = "http://127.0.0.1:11434"
#: Seconds until an address of this machine answers that somebody listens.
CONNECT_S = 2.0


class TroubleKind(StrEnum):
    UNREACHABLE = "unreachable"
    BROKE_OFF = "broke_off"
    TIMEOUT = "timeout"
    MODEL_MISSING = "model_missing"
    REFUSED = "refused"
    """The server answered with an error: `Trouble.status` is the HTTP status, -1 within a stream."""
    BAD_ANSWER = "bad_answer"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure in words for people: `sentence` says what is, `fix` what to do about it."""

    kind: TroubleKind
    sentence: str
    fix: str
    status: int = 0


def shown_host(host: str | None) -> str:
    """The address that is spoken to when the configuration says `host`."""
    return host or os.environ.get("OLLAMA_HOST") or DEFAULT_HOST


async def open_client(host: str | None) -> AsyncClient:
    """A new client; `await client.close()` ends it. ValueError when the host is no address, OSError when it is on
    this machine and nobody listens."""
    return await asyncio.to_thread(_open, host)


def _open(host: str | None) -> AsyncClient:
    address = shown_host(host)
    parts = urlsplit(address if "://" in address else f"//{address}")
    # A proxy of the environment is for the outside; behind it, 127.0.0.1 would be the proxy's own machine.
    name = parts.hostname or ""
    local = name in ("", "localhost", "::1", "0.0.0.0") or name.startswith("127.")
    if local:
        # Where nobody listens the package is not loaded: with its libraries it is 14 MB.
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 11434)
        socket.create_connection((name or "127.0.0.1", port), timeout=CONNECT_S).close()
    from ollama import AsyncClient  # late: see above

    return AsyncClient(host=address, timeout=None, trust_env=not local, verify=_certificates(not local))


@lru_cache(maxsize=2)
def _certificates(trust_env: bool) -> SSLContext:
    """Read once: it takes longer than most answers."""
    import httpx

    return httpx.create_ssl_context(trust_env=trust_env)


async def missing_model(client: AsyncClient, model: str) -> bool:
    """Is `model` absent from the server? A name without a tag means `:latest`, as for the server itself."""
    there = {entry.model for entry in (await client.list()).models if entry.model}
    return model not in there and f"{model}:latest" not in there


def no_model(host: str | None, model: str) -> Trouble:
    return Trouble(
        TroubleKind.MODEL_MISSING,
        f"Ollama at {shown_host(host)} does not have the model `{model}`.",
        f"Run `ollama pull {model}`, or name a model in the configuration that `ollama list` shows.",
    )


def too_slow(host: str | None, model: str, seconds: float) -> Trouble:
    return Trouble(
        TroubleKind.TIMEOUT,
        f"Ollama at {shown_host(host)} did not answer with `{model}` within {seconds:g} s.",
        "A model is slow while it loads. If it stays slow, use a smaller model or a longer timeout.",
    )


def explain(error: BaseException, host: str | None, model: str, seconds: float) -> Trouble:
    """What an exception of the client means. `seconds` is the deadline that was given."""
    if isinstance(error, TimeoutError):
        return too_slow(host, model, seconds)  # before the imports: they may be what was too slow
    where = shown_host(host)
    if isinstance(error, OSError):
        return _unreachable(where)
    import httpx  # a look-up: the client has imported it by now
    import ollama

    match error:
        case httpx.TimeoutException():
            return too_slow(host, model, seconds)
        case ollama.ResponseError(status_code=404) if "model" in str(error.error):
            return no_model(host, model)
        case ollama.ResponseError():
            status = f" (HTTP {error.status_code})" if error.status_code > 0 else ""
            return Trouble(
                TroubleKind.REFUSED,
                f"Ollama at {where} answered with an error{status}: {_line(str(error.error))}",
                "Its log says more (`journalctl -u ollama`, or the terminal of `ollama serve`).",
                error.status_code,
            )
        case httpx.ConnectError() | httpx.InvalidURL() | httpx.UnsupportedProtocol():
            return _unreachable(where)
        case httpx.HTTPError():
            return Trouble(
                TroubleKind.BROKE_OFF,
                f"The connection to Ollama at {where} was lost.",
                "Start it again with `ollama serve`; its log says why it ended.",
            )
        case _:
            return Trouble(
                TroubleKind.BAD_ANSWER,
                f"What answers at {where} does not speak Ollama's protocol ({type(error).__name__}).",
                "Check whether another program has that port, and whether Ollama is up to date.",
            )


def _unreachable(where: str) -> Trouble:
    return Trouble(
        TroubleKind.UNREACHABLE,
        f"Ollama does not answer at {where}.",
        "Start it with `ollama serve`, or install it from ollama.com; the address is a setting.",
    )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
