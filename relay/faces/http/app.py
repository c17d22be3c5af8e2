"""The HTTP application of one room: its routes, and what every request passes (docs/http.md).

Invariant: what is not in `open_to_all` wants a credential.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from aiohttp import web
from aiohttp.typedefs import Handler

from relay.config.settings import Settings
from relay.faces.http.hub import Hub
from relay.faces.http.reference.pages import reference_doors
from relay.faces.http.requests.auth import Auth
from relay.faces.http.requests.connections import Doorway
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.middleware import (
    Gate,
    Hosts,
    secure,
)
from relay.faces.http.routes.mcp import McpDoor
from relay.faces.http.routes.operations import OperationDoors
from relay.faces.http.routes.room import RoomRoutes, message_bytes
from relay.faces.http.routes.sign_in import SignInRoutes
from relay.faces.http.static_files import PageFiles
from relay.faces.http.websocket import SocketDoor
from relay.faces.services import Services
from relay.model import RESERVED_NAMES
from relay.room.service import Room

#: The connected clients, for `/metrics`: `app[HUB].clients`.
HUB = web.AppKey("hub", Hub)
#: Who may stay connected: the daemon listens through it.
DOORWAY = web.AppKey("doorway", Doorway)
_SOCKETS = web.AppKey("sockets", SocketDoor)


def create_app(
    room: Room,
    auth: Auth,
    *,
    settings: Settings,
    static: Path,
    metrics: Callable[[], bytes] | None = None,
    reserved: Callable[[], Collection[str]] | None = None,
    limits: Limits | None = None,
    services: Services | None = None,
) -> web.Application:
    """The application of one room.

    `static` is the folder of the built page, which may be missing. `metrics` gives the Prometheus text.
    `reserved` gives the names that no person has; without it those of the room and of `settings.agents`.
    `services`: what the operations ask; without them the room has none.
    """
    limits = limits or Limits()
    hub = Hub(room)

    def own_names() -> Collection[str]:
        return RESERVED_NAMES.union(settings.agent_names)

    reserved = reserved or own_names
    sockets = SocketDoor(room, auth, hub, limits, reserved)
    sign_in = SignInRoutes(auth, hub, limits)
    routes = RoomRoutes(
        room,
        auth,
        max_entry=settings.workspace.max_entry_bytes,
        metrics=metrics,
        reserved=reserved,
        limits=limits,
        services=services,
    )
    page = PageFiles(static)
    open_to_all: list[Handler] = [routes.health, sign_in.sign_in, page.index, page.asset, page.other]
    gate = Gate(auth, Hosts.of(settings.ui), limits, open_to_all)
    app = web.Application(middlewares=gate.middlewares())
    app[HUB], app[_SOCKETS], app[DOORWAY] = hub, sockets, Doorway(limits)
    app.add_routes([web.get("/", page.index), web.get("/assets/{name:.+}", page.asset)])
    app.add_routes([web.get(f"/{name}", page.other) for name in page.top_level()])
    app.add_routes([*sign_in.table(), *routes.table()])
    app.router.add_get("/ws", sockets.open, allow_head=False)
    if services is not None:
        most = message_bytes(settings.workspace.max_entry_bytes, limits)
        app.add_routes(OperationDoors(services, reserved, replace(limits, body_bytes=most)).table())
        app.add_routes(reference_doors())
        McpDoor(services, reserved, limits).add_to(app)
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
