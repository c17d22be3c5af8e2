"""A house that serves HTTP on a real port, and its room: what the tests of the routes stand in."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, Gauge

from relay.config import loading
from relay.config.settings import LiveSettings
from relay.faces.http.app import create_app
from relay.faces.http.requests.auth import Auth, ensure_token
from relay.faces.http.requests.limits import Limits
from relay.faces.http.requests.reader import RequestReader
from relay.faces.http.routes.webhooks import GithubWebhooks
from relay.faces.services import Services, services_of
from relay.store.ports import Store
from tests import engines
from tests.engines import SCHEMAS, Clock
from tests.faces.memory_room import MemoryRoom
from tests.standing import with_agents

CONFIG = '{"agents": [{"name": "CLAUDE", "preset": "claude"}], "workspace": {"max_entry_bytes": 4096}}'


def _metrics() -> CollectorRegistry:
    registry = CollectorRegistry()
    Gauge("up", "The room", registry=registry).set(1)
    return registry


def reader_of(*agents: str) -> RequestReader:
    """Of a room with these agents."""
    return RequestReader(with_agents(*agents))


@dataclass
class House:
    room: MemoryRoom
    auth: Auth
    app: web.Application
    token: str
    clock: Clock
    store: Store
    server: TestServer
    client: TestClient[Any, Any]

    @property
    def key(self) -> dict[str, str]:
        return {"X-API-Key": self.token}

    @property
    def at(self) -> str:
        return f"{self.server.host}:{self.server.port}"

    async def ask(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> tuple[int, Any, aiohttp.ClientResponse]:
        """As a program with the key."""
        async with self.client.request(
            method, path, headers={**self.key, **(headers or {})}, allow_redirects=False, **more
        ) as response:
            text = await response.text()
            data = await response.json() if "json" in response.headers.get("Content-Type", "") else text
            return response.status, data, response

    def ws(self, **more: Any) -> Any:
        return self.client.ws_connect("/ws", headers=more.pop("headers", self.key), **more)


def settings_of(folder: Path, text: str = CONFIG) -> LiveSettings:
    """The settings of a room in this folder."""
    return LiveSettings(loading.parse(text, folder / "config.json"))


def real_services(store: Store, settings: LiveSettings) -> Services:
    """The services themselves, on a file system that tells cases apart."""
    return services_of(store, settings, fold=False)


@asynccontextmanager
async def house(
    folder: Path,
    *,
    limits: Limits | None = None,
    text: str = CONFIG,
    routes: Iterable[web.RouteDef] = (),
    routes_on: Callable[[Store, RequestReader], Iterable[web.RouteDef]] | None = None,
    services: Callable[[Store, LiveSettings], Services] | None = None,
    webhooks: Callable[[Store, LiveSettings], GithubWebhooks] | None = None,
    **room: Any,
) -> AsyncIterator[House]:
    """One house; its files are in `folder`, the page's in `folder/static`. `routes`: further ones; `routes_on`:
    the same, made of the store; `services`: what the operations ask; `webhooks`: what takes GitHub's."""
    live = settings_of(folder, text)
    settings = live.current
    clock = Clock()
    store = await engines.open_store(settings.db_path.parent, SCHEMAS, clock=clock)
    token = ensure_token(settings.token_path)
    auth = Auth(token, store)
    memory = MemoryRoom(**room)
    app = create_app(
        memory,
        auth,
        RequestReader(live, limits),
        static=folder / "static",
        metrics=_metrics(),
        services=services(store, live) if services else None,
        webhooks=webhooks(store, live) if webhooks else None,
    )
    app.add_routes([*routes, *(routes_on(store, RequestReader(live)) if routes_on else ())])
    server = TestServer(app, host="127.0.0.1", access_log=None)
    jar = aiohttp.CookieJar(unsafe=True)
    try:
        async with TestClient(server, cookie_jar=jar) as client:
            yield House(memory, auth, app, token, clock, store, server, client)
    finally:
        await store.close()
