"""Who comes in, and who does not."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
import structlog

from relay.access import page_sessions
from relay.config import loading
from relay.faces.http.requests.auth import Credential, CredentialKind, TokenError, ensure_token, speaker
from relay.faces.http.requests.errors import status_of
from relay.faces.http.requests.limits import Buckets, Limits, Rate
from relay.faces.http.requests.middleware import Hosts, same_origin
from relay.model import Refusal
from tests import engines
from tests.engines import BOTH
from tests.faces.house import House, house

OPEN = {("GET", "/"), ("GET", "/assets/{name}"), ("GET", "/health"), ("POST", "/api/sign-in")}


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        yield one


# --- the token -----------------------------------------------------------------------------------------


def test_the_token_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / ".relay" / "token"
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(ensure_token, [path] * 16))
    assert len(tokens) == 1 and len(tokens.pop()) == 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["token"]


def test_a_token_that_others_can_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("k" * 43 + "\n")
    path.chmod(0o644)
    assert ensure_token(path) == "k" * 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "\n", "short", "a b" * 20, "é" * 40])
def test_a_file_without_a_token_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    with pytest.raises(TokenError, match="remove it"):
        ensure_token(path)


# --- keys ----------------------------------------------------------------------------------------------


async def test_nothing_but_the_open_routes_answers_without_a_key(home: House) -> None:
    seen = set()
    for route in home.app.router.routes():
        assert route.resource is not None
        canonical = route.resource.canonical
        if (route.method.replace("HEAD", "GET"), canonical) in OPEN:
            continue
        path = re.sub(r"\{[^}]+\}", "1", canonical)
        async with home.client.request(route.method, path) as response:
            assert response.status == 401, (route.method, canonical)
            if route.method != "HEAD":
                assert (await response.json())["error"]["fix"]
        seen.add(canonical)
    assert {"/ws", "/metrics", "/api/state", "/api/messages", "/api/sign-out", "/api/links"} <= seen
    for path in ("/api/nothing", "/.relay/token"):
        async with home.client.get(path) as response:
            assert response.status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-API-Key": "{token}"}, 200),
        ({"Authorization": "Bearer {token}"}, 200),
        ({"Authorization": "bearer  {token} "}, 200),
        ({"X-API-Key": "{token}x"}, 401),
        ({"X-API-Key": ""}, 401),
        ({"X-API-Key": "é"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"X-API-Key": "wrong", "Authorization": "Bearer {token}"}, 401),
        ({"Cookie": "relay_{port}={token}"}, 401),
        ({}, 401),
    ],
)
async def test_the_ways_to_send_a_key(home: House, headers: dict[str, str], status: int) -> None:
    sent = {k: v.format(token=home.token, port=home.server.port) for k, v in headers.items()}
    async with home.client.get("/api/tasks", headers=sent) as response:
        assert response.status == status
        assert home.token not in await response.text()


async def test_refused_keys_are_slowed_down_and_good_ones_are_not(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(refused=Rate(0.001, 2))) as home:
        statuses = []
        for _ in range(4):
            async with home.client.get("/api/tasks", headers={"X-API-Key": "guess"}) as response:
                statuses.append(response.status)
        assert statuses == [401, 401, 429, 429]
        assert (await home.ask("GET", "/api/tasks"))[0] == 200


# --- links and sessions --------------------------------------------------------------------------------


async def sign_in(home: House, **by: str) -> aiohttp.ClientResponse:
    async with home.client.post("/api/sign-in", json=by) as response:
        await response.read()
        return response


@BOTH
async def test_a_link_signs_the_page_in_and_out_again(home: House) -> None:
    _, made, _ = await home.ask("POST", "/api/links")
    base, _, secret = made["url"].partition("#link=")
    assert base == f"http://{home.at}/" and made["expires_in_s"] == 600 and len(secret) == 43
    response = await sign_in(home, link=secret)
    assert response.status == 200 and await response.json() == {"ok": True}
    cookie = response.headers["Set-Cookie"]
    assert cookie.startswith(f"relay_{home.server.port}=")
    for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"):
        assert part in cookie
    assert "Domain" not in cookie
    async with home.client.get("/api/tasks") as answer:
        assert answer.status == 200
    async with home.client.post("/api/sign-out") as answer:
        assert answer.status == 200
    value = cookie.partition("=")[2].partition(";")[0]
    async with home.client.get(
        "/api/tasks", headers={"Cookie": f"relay_{home.server.port}={value}"}
    ) as answer:
        assert answer.status == 401


@BOTH
async def test_a_used_an_old_and_an_invented_link(home: House) -> None:
    used, old = await home.auth.new_link(), await home.auth.new_link()
    assert (await sign_in(home, link=used)).status == 200
    home.clock.now += page_sessions.LINK_S
    for link in (used, old, "invented", ""):
        response = await sign_in(home, link=link)
        assert response.status == 401 and "Set-Cookie" not in response.headers
        assert "relay link" in (await response.json())["error"]["fix"]


@BOTH
async def test_of_many_exchanges_at_once_one_wins_also_across_processes(home: House, tmp_path: Path) -> None:
    link = await home.auth.new_link()
    other = await engines.open_store(tmp_path / ".relay", [page_sessions.FOLDER], clock=home.clock)
    try:
        stores = [home.store, other] * 5
        won = await asyncio.gather(*(page_sessions.exchange_link(one, link) for one in stores))
    finally:
        await other.close()
    assert len([one for one in won if one]) == 1


async def test_the_token_signs_in_too(home: House) -> None:
    assert (await sign_in(home, key="no")).status == 401
    assert (await sign_in(home, key=home.token)).status == 200
    assert (await sign_in(home, key=home.token, link="x")).status == 400
    assert (await sign_in(home)).status == 400


@BOTH
async def test_a_session_lives_thirty_days_after_its_last_use(home: House) -> None:
    await sign_in(home, key=home.token)
    day = 86400
    for passed, status, renewed in [(60, 200, False), (29 * day, 200, True), (29 * day, 200, True)]:
        home.clock.now += passed
        async with home.client.get("/api/tasks") as response:
            assert response.status == status
            assert ("Set-Cookie" in response.headers) == renewed
    home.clock.now += 30 * day
    async with home.client.get("/api/tasks") as response:
        assert response.status == 401


async def test_failed_sign_ins_are_slowed_down_and_good_ones_are_not_counted(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(sign_ins=Rate(0.001, 2))) as home:
        good = [(await sign_in(home, key=home.token)).status for _ in range(5)]
        bad = [(await sign_in(home, key="guess")).status for _ in range(4)]
        assert good == [200] * 5 and bad == [401, 401, 429, 429]
        assert (await sign_in(home, key=home.token)).status == 429


async def test_only_digests_are_kept_and_no_secret_is_logged(
    home: House, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"), structlog.testing.capture_logs() as logs:
        _, made, _ = await home.ask("POST", "/api/links")
        secret = made["url"].partition("#link=")[2]
        response = await sign_in(home, link=secret)
        await home.ask("GET", "/api/search?q=hush")
        await home.ask("GET", f"/api/events/{secret}/why")
    session = response.headers["Set-Cookie"].partition("=")[2].partition(";")[0]
    second = await home.auth.new_link()
    await home.store.close()
    kept = b"".join(file.read_bytes() for file in home.store.path.parent.glob("events.db*"))
    assert page_sessions.digest(session).encode() in kept
    told = json.dumps(logs, default=str)
    assert "/api/sign-in" in told and "/api/events/{event}/why" in told
    for one in (secret, second, session, home.token, "hush"):
        assert one.encode() not in kept and one not in told


# --- hosts and origins ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:{port}", None, 200),
        ("LOCALHOST:{port}", None, 200),
        ("[::1]:{port}", None, 200),
        ("127.0.0.1:{port}", "http://127.0.0.1:{port}", 200),
        ("localhost:{port}", "http://localhost:{port}", 200),
        ("room.example", "https://room.example", 200),
        ("evil.example:{port}", None, 403),
        ("evil.example", None, 403),
        ("127.0.0.1", None, 403),
        ("127.0.0.1:1", None, 403),
        ("127.0.0.1.evil.example:{port}", None, 403),
        ("evil.example@127.0.0.1:{port}", None, 403),
        ("", None, 403),
        ("127.0.0.1:{port}", "http://evil.example", 403),
        ("127.0.0.1:{port}", "http://localhost:{port}", 403),
        ("127.0.0.1:{port}", "http://127.0.0.1:1", 403),
        ("127.0.0.1:{port}", "http://127.0.0.1", 403),
        ("127.0.0.1:{port}", "null", 403),
        ("127.0.0.1:{port}", "", 403),
        ("evil.example:{port}", "http://evil.example:{port}", 403),
    ],
)
@pytest.mark.parametrize("path", ["/api/tasks", "/health", "/", "/ws"])
async def test_hosts_and_origins(
    tmp_path: Path, path: str, host: str, origin: str | None, status: int
) -> None:
    async with house(tmp_path, text='{"ui": {"allowed_hosts": ["room.example"]}}') as home:
        port = home.server.port
        headers = {"Host": host.format(port=port)}
        if origin is not None:
            headers["Origin"] = origin.format(port=port)
        if path == "/ws":
            expected = 101 if status == 200 else status
            try:
                async with home.ws(headers={**home.key, **headers}) as line:
                    await line.send_json({"after": None})
                    assert (await line.receive_json())["type"] == "hello"
                    got = 101
            except aiohttp.WSServerHandshakeError as error:
                got = error.status
            assert got == expected
        else:
            got, _, _ = await home.ask("GET", path, headers=headers)
            assert got == (503 if path == "/" and status == 200 else status)


@pytest.mark.parametrize(
    ("bound", "host", "address", "allowed"),
    [
        ("0.0.0.0", "192.168.1.5:80", "192.168.1.5", True),
        ("0.0.0.0", "192.168.1.5", "192.168.1.5", True),
        ("0.0.0.0", "192.168.1.6", "192.168.1.5", False),
        ("0.0.0.0", "0.0.0.0", "192.168.1.5", False),
        ("0.0.0.0", "my-machine", "192.168.1.5", False),
        ("my-machine", "my-machine", "192.168.1.5", True),
        ("::", "[fe80::1]", "fe80::1%eth0", True),
        ("::", "192.168.1.5", "::ffff:192.168.1.5", True),
        ("fd00::7", "[FD00::7]:80", "fd00::7", True),
        ("fd00::7", "fd00::7", "fd00::7", False),
    ],
)
def test_a_room_on_the_network_is_asked_under_its_own_address(
    bound: str, host: str, address: str, allowed: bool
) -> None:
    ui = loading.parse(json.dumps({"ui": {"host": bound}}), Path("/room/config.json")).ui
    assert Hosts.of(ui).allow(host, address, 80) is allowed


def test_an_origin_is_scheme_host_and_port() -> None:
    assert same_origin("http://a:1", "A:1") and not same_origin("http://a:1.evil", "a:1")
    assert not same_origin("ftp://a:1", "a:1")


async def test_a_request_without_a_host_is_refused(home: House) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", home.server.port)
    writer.write(b"GET /health HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(20):
        assert b" 403 " in await reader.readline()
    writer.close()


# --- names ---------------------------------------------------------------------------------------------

TOKEN = Credential(CredentialKind.TOKEN, "token")
BOUND = Credential(CredentialKind.TOKEN, "k", identity="CODEX")
RESERVED = {"CLAUDE", "CODEX", "RELAY"}


@pytest.mark.parametrize(
    ("credential", "claims", "result"),
    [
        (TOKEN, {"name": "ann"}, "ann"),
        (TOKEN, {"name": " ann "}, "ann"),
        (TOKEN, {"name": "ann", "agent_id": "ann"}, "ann"),
        (TOKEN, {"agent_id": "ann"}, "ann"),
        (TOKEN, {}, "owner"),
        (TOKEN, {"name": None}, "owner"),
        (TOKEN, {"name": "CODEX"}, 403),
        (TOKEN, {"name": "codex"}, 403),
        (TOKEN, {"agent_id": "CODEX"}, 403),
        (TOKEN, {"name": "СODEX"}, 403),  # a Cyrillic С
        (TOKEN, {"name": "a" * 32}, "a" * 32),
        (TOKEN, {"name": "a" * 33}, 400),
        (TOKEN, {"name": "@ann"}, 400),
        (TOKEN, {"name": "e\u0301va"}, "éva"),
        (TOKEN, {"name": "[a"}, 400),
        (TOKEN, {"name": "a\u202eb"}, 400),
        (BOUND, {}, "CODEX"),
        (BOUND, {"agent_id": "CODEX", "name": "CODEX"}, "CODEX"),
        (BOUND, {"name": "ann"}, 403),
        (BOUND, {"agent_id": "CLAUDE"}, 403),
        (BOUND, {"name": "CODEX", "agent_id": "ann"}, 403),
    ],
)
def test_who_speaks(credential: Credential, claims: dict[str, str | None], result: str | int) -> None:
    try:
        got: str | int = speaker(credential, claims, RESERVED, "owner")
    except Refusal as error:
        got = status_of(error)
    assert got == result


# --- buckets -------------------------------------------------------------------------------------------


def test_a_bucket_fills_with_time_and_forgets_the_quiet() -> None:
    now = 0.0
    buckets = Buckets(Rate(per_s=2, burst=2), clock=lambda: now, most=3)
    assert [buckets.take("a") for _ in range(3)] == [0, 0, 0.5]
    now = 0.5
    assert buckets.take("a") == 0 and buckets.take("a") == 0.5
    buckets.give_back("a")
    assert buckets.take("a") == 0
    for at in range(50):
        buckets.take(f"other-{at}")
    assert len(buckets._levels) <= 3
