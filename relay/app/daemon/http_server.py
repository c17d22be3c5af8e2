"""The HTTP server of a running room: its routes over the parts, and the address on which it listens."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

from aiohttp import web

import relay
from relay import faces
from relay.app.attach.routes import AttachRoutes
from relay.app.daemon.parts import Parts
from relay.app.entries.code import CodeLook
from relay.app.entries.file_routes import FileRoutes
from relay.app.entries.routes import EntryRoutes
from relay.app.guard.inbox_routes import InboxRoutes
from relay.app.needs.routes import NeedRoutes
from relay.app.review.routes import ReviewRoutes
from relay.app.tasks.routes import TaskRoutes
from relay.app.worktrees.routes import WorktreeDeskRoutes
from relay.base.durations import now_iso
from relay.base.files import write_atomically
from relay.config.settings import Settings
from relay.faces.http.app import HUB, LIMITER, create_app
from relay.faces.http.hub import Hub
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.airspace import AirspaceRoutes
from relay.faces.http.routes.guard import GuardRoutes
from relay.faces.http.routes.handoffs import HandoffRoutes
from relay.faces.http.routes.locks import LockRoutes
from relay.faces.http.routes.memories import MemoryRoutes
from relay.faces.http.routes.merge.conflicts import ConflictRoutes
from relay.faces.http.routes.merge.explorations import ExplorationRoutes
from relay.faces.http.routes.moments import MomentRoutes
from relay.faces.http.routes.permissions import PermissionRoutes
from relay.faces.http.routes.timeline import TimelineRoutes
from relay.faces.http.routes.verification.landing import LandingRoutes
from relay.faces.http.routes.verification.verifications import VerificationRoutes
from relay.faces.http.routes.webhooks import GithubWebhooks
from relay.faces.http.routes.worktrees import WorktreeRoutes
from relay.faces.landing import LandingView
from relay.faces.worktrees import WorktreesService

STATIC = Path(faces.__file__).parent / "static"
#: Bytes of a request's first line: a path of 4096 characters, each of four bytes, each byte escaped, and the rest.
MOST_LINE = 65536


class CannotListen(Exception):
    """The address cannot be opened; the message says why and what to do."""


class HttpServer:
    """`open` it, and `close` it when the room ends."""

    def __init__(self, parts: Parts) -> None:
        self._app = _app(parts)
        self._runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=2.0)
        self._server: asyncio.Server | None = None
        #: On which it listens; 0 = on none yet.
        self.port = 0

    @property
    def hub(self) -> Hub:
        """The connected WebSocket clients."""
        return self._app[HUB]

    async def open(self, settings: Settings) -> str:
        """Listen, write down where (`.relay/state.json`), and give the address of the page. Raises CannotListen."""
        await self._runner.setup()
        assert self._runner.server is not None
        ui, limiter = settings.ui, self._app[LIMITER]
        connections = limiter.factory(self._runner.server, max_line_size=MOST_LINE)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(connections, ui.host, ui.port, backlog=limiter.backlog)
        except OSError as error:
            raise CannotListen(
                f"{ui.host}:{ui.port} cannot be opened: {error.strerror}. Something else may use the port; "
                "set `ui.port` in the configuration (0 takes any free one)"
            ) from error
        host, self.port = self._server.sockets[0].getsockname()[:2]
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        url = f"http://[{shown}]:{self.port}" if ":" in shown else f"http://{shown}:{self.port}"
        state = {
            "url": url,
            "host": host,
            "port": self.port,
            "pid": os.getpid(),
            "version": relay.__version__,
            "started_at": now_iso(),
        }
        await asyncio.to_thread(write_atomically, settings.state_path, json.dumps(state) + "\n")
        return url

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()


def _app(parts: Parts) -> web.Application:
    worktrees, airspace, actions = parts.worktrees, parts.airspace, parts.room.actions
    reader = RequestReader(parts.settings)
    service = WorktreesService(
        parts.store,
        worktrees.registry,
        worktrees.actions,
        parts.services.policies,
        worktrees.watcher,
        airspace.protocol,
        worktrees.desk,
    )
    webhooks = GithubWebhooks(parts.store, parts.settings, reader.limits, parts.verification.workflows.wake)
    app = create_app(
        parts.room,
        parts.auth,
        reader,
        static=STATIC,
        metrics=parts.metrics.registry,
        services=parts.services,
        webhooks=webhooks,
    )
    app.router.add_post("/api/repair", parts.recovery.repair)
    app.add_routes(AttachRoutes(parts.attached, reader, parts.files).table())
    app.add_routes(GuardRoutes(parts.guard, worktrees, reader).table())
    app.add_routes(InboxRoutes(parts.workers, reader).table())
    app.add_routes(PermissionRoutes(parts.permissions, actions, reader).table())
    app.add_routes(AirspaceRoutes(airspace.live, actions, reader).table())
    app.add_routes(MemoryRoutes(parts.store, actions, reader).table())
    app.add_routes(HandoffRoutes(parts.store, actions, parts.settings, reader).table())
    app.add_routes(ExplorationRoutes(parts.store, actions, worktrees.registry, reader).table())
    app.add_routes(ConflictRoutes(parts.store, actions, worktrees.registry, reader).table())
    app.add_routes(NeedRoutes(parts.store, parts.needs, actions, reader).table())
    app.add_routes(ReviewRoutes(parts.reviews, actions, reader).table())
    most = parts.settings.current.workspace.max_entry_bytes
    code = CodeLook(parts.store, parts.moments, worktrees.registry)
    app.add_routes(EntryRoutes(parts.store, actions, code, reader, max_entry=most).table())
    app.add_routes(FileRoutes(parts.files, parts.settings, reader).table())
    app.add_routes(LockRoutes(parts.room, reader).table())
    app.add_routes(TaskRoutes(parts.store, parts.room, parts.board, worktrees.registry, reader).table())
    app.add_routes(WorktreeRoutes(service, reader).table())
    app.add_routes(WorktreeDeskRoutes(worktrees.desk, actions, reader).table())
    app.add_routes(TimelineRoutes(parts.store, parts.rewinds, reader, parts.services.locks).table())
    verifier, registry = parts.verification.verifier, worktrees.registry
    app.add_routes(VerificationRoutes(parts.store, actions, registry, reader, verifier.output).table())
    landings, policies = parts.services.landings, parts.services.policies
    view = LandingView(parts.settings, registry, landings, policies, airspace.protocol)
    app.add_routes(LandingRoutes(view, actions, parts.reload, reader).table())
    app.add_routes(MomentRoutes(parts.moments, reader).table())
    return app
