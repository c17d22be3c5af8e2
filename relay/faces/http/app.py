"""The HTTP application of one room: its routes and its middleware (docs/http.md).

Invariant: a handler that is not in `open_to_all` needs a credential.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry

from relay.faces.http.hub import Hub
from relay.faces.http.reference.pages import reference_routes
from relay.faces.http.requests.auth import Auth
from relay.faces.http.requests.connections import ConnectionLimiter
from relay.faces.http.requests.errors import soon
from relay.faces.http.requests.middleware import Gate, Hosts, secure
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.mcp import McpRoutes
from relay.faces.http.routes.operations import OperationRoutes
from relay.faces.http.routes.room import RoomRoutes, message_bytes
from relay.faces.http.routes.sign_in import SignInRoutes
from relay.faces.http.routes.webhooks import GithubWebhooks
from relay.faces.http.static_files import PageFiles
from relay.faces.http.websocket import SocketEndpoint
from relay.faces.services import Services
from relay.room.service import Room

#: The connected clients, for `/metrics`: `app[HUB].clients`.
HUB = web.AppKey("hub", Hub)
#: The limits on connections; the daemon listens through it.
LIMITER = web.AppKey("limiter", ConnectionLimiter)
_SOCKETS = web.AppKey("sockets", SocketEndpoint)


def create_app(
    room: Room,
    auth: Auth,
    reader: RequestReader,
    *,
    static: Path,
    metrics: CollectorRegistry | None = None,
    services: Services | None = None,
    webhooks: GithubWebhooks | None = None,
) -> web.Application:
    """The application of one room.

    `static` is the folder of the built page, which may be missing. `services`: what the operations ask; without them
    the room has none. `webhooks`: what takes GitHub's; None = one that tells nobody of runs that are over.
    """
    limits, now, hub = reader.limits, reader.settings.current, Hub(room)
    sockets, sign_in = SocketEndpoint(room, auth, hub, reader), SignInRoutes(auth, hub, reader)
    max_entry = now.workspace.max_entry_bytes
    routes = RoomRoutes(room, auth, reader, services, metrics, max_entry=max_entry)
    page = PageFiles(static)
    webhooks = webhooks or GithubWebhooks(auth.store, reader.settings, limits)
    open_to_all: list[Handler] = [routes.health, sign_in.sign_in, webhooks.take]
    open_to_all += [page.index, page.asset, page.other]
    gate = Gate(auth, Hosts.of(now.ui), limits, open_to_all)
    app = web.Application(middlewares=[soon(room.cut_off), *gate.middlewares()])
    app[HUB], app[_SOCKETS], app[LIMITER] = hub, sockets, ConnectionLimiter(limits)
    app.add_routes([web.get("/", page.index), web.get("/assets/{name:.+}", page.asset)])
    app.add_routes([web.get(f"/{name}", page.other) for name in page.top_level()])
    app.add_routes([*sign_in.table(), *routes.table(), *webhooks.table()])
    app.router.add_get("/ws", sockets.open, allow_head=False)
    if services is not None:
        app.add_routes(OperationRoutes(services, reader, message_bytes(max_entry, limits)).table())
        app.add_routes(reference_routes())
        McpRoutes(services, reader).add_to(app)
    app.on_response_prepare.append(secure)
    app.on_shutdown.append(_stop_sockets)
    app.cleanup_ctx.append(_run_hub)
    return app


async def _run_hub(app: web.Application) -> AsyncIterator[None]:
    await app[HUB].start()
    task = asyncio.create_task(app[HUB].run(), name="hub")
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _stop_sockets(app: web.Application) -> None:
    app[_SOCKETS].stop()
