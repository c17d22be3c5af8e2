"""HTTP over a real socket: what is asked, what is refused and how."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import structlog

from relay.faces.http.requests.limits import Limits, Rate
from relay.model import Fault, Refusal
from relay.model.actions import Pause, SetAgent
from relay.store.ports import StoreBusy
from tests.faces.house import House, house


@pytest_asyncio.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as one:
        yield one


def error_of(data: Any) -> dict[str, str]:
    """The error of an answer, which is whole."""
    error: dict[str, str] = data["error"]
    assert set(error) == {"code", "message", "fix"} and error["code"] and error["message"]
    return error


async def test_a_post_is_read_back_and_repeated_as_one(home: House) -> None:
    message = {"body": "hello\nthere", "name": "ann", "client_id": "c1", "in_reply_to": "m0"}
    status, first, _ = await home.ask("POST", "/api/messages", json=message)
    assert status == 201 and first == {"id": "m1", "cursor": "3", "number": 1}
    assert (await home.ask("POST", "/api/messages", json=message))[1] == first
    _, page, _ = await home.ask("GET", "/api/transcript")
    assert [one["body"] for one in page["entries"]] == ["hello\nthere"]
    assert page["entries"][0]["speaker"] == "ann" and page["entries"][0]["cursor"] == page["next"] == "3"


async def test_pages_follow_their_cursors(home: House) -> None:
    for at in range(5):
        await home.room.post(str(at), name="ann")
    seen: list[str] = []
    cursor = "0"
    while True:
        _, page, _ = await home.ask("GET", f"/api/transcript?after={cursor}&limit=2")
        if not page["entries"]:
            break
        seen += [one["body"] for one in page["entries"]]
        cursor = page["next"]
    assert seen == ["0", "1", "2", "3", "4"]
    _, page, _ = await home.ask("GET", f"/api/transcript?before={cursor}&limit=3")
    assert [one["body"] for one in page["entries"]] == ["1", "2", "3"] and page["more"] is True


@pytest.mark.parametrize(
    ("place", "limit", "bodies", "more", "more_after"),
    [
        ("m3", 2, ["1", "2"], True, True),
        ("m3", 3, ["1", "2", "3"], True, True),
        ("m1", 4, ["0", "1"], False, True),
        ("m5", 4, ["2", "3", "4"], True, False),
        ("%233", 100, ["0", "1", "2", "3", "4"], False, False),
        ("7", 1, ["2"], True, True),
    ],
)
async def test_a_page_around_a_message(
    home: House, place: str, limit: int, bodies: list[str], more: bool, more_after: bool
) -> None:
    for at in range(5):
        await home.room.post(str(at), name="ann")
    status, page, _ = await home.ask("GET", f"/api/transcript?around={place}&limit={limit}")
    assert status == 200 and [one["body"] for one in page["entries"]] == bodies
    assert (page["more"], page["more_after"]) == (more, more_after)
    assert page["next"] == page["entries"][-1]["cursor"]


@pytest.mark.parametrize(("messages", "jobs"), [("m1", [7]), ("m3,m1", [7]), ("m3", [])])
async def test_the_jobs_of_some_messages(home: House, messages: str, jobs: list[int]) -> None:
    status, data, _ = await home.ask("GET", f"/api/queue?messages={messages}")
    assert status == 200 and [one["id"] for one in data["jobs"]] == jobs


@pytest.mark.parametrize("place", ["m9", "%239", "nothing"])
async def test_there_is_nothing_around_what_is_not_there(home: House, place: str) -> None:
    await home.room.post("0", name="ann")
    status, data, _ = await home.ask("GET", f"/api/transcript?around={place}")
    assert status == 404 and "no message" in error_of(data)["message"]


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (b"", 400, "no body"),
        (b"  \n", 400, "no body"),
        (b"{", 400, "not JSON"),
        (b"[]", 400, "a list"),
        (b'"x"', 400, "a text"),
        (b"null", 400, "missing"),
        (b"\xff\xfe", 400, "UTF-8"),
        (b"[" * 60_000, 400, "nested too deeply"),
        (b'{"body": ' + b"9" * 5000 + b"}", 400, "nested too deeply"),
        (b"{}", 400, "body is missing"),
        (b'{"body": null}', 400, "body is missing"),
        (b'{"body": 1}', 400, "a number"),
        (b'{"body": NaN}', 400, "a number"),
        (b'{"body": ["x"]}', 400, "a list"),
        (b'{"body": ""}', 400, "empty"),
        (b'{"body": " \\n\\t"}', 400, "empty"),
        (b'{"body": "\\ud800"}', 400, "unpaired surrogate"),
        (b'{"body": "x", "boddy": "y"}', 400, "boddy"),
        (b'{"body": "x", "name": 5}', 400, "name is a number"),
        (b'{"body": "x", "name": "a]b"}', 400, "square bracket"),
        (b'{"body": "x", "name": ""}', 400, "name is empty"),
        (b'{"body": "x", "name": "a\\u0000b"}', 400, "U+0000"),
        (b'{"body": "x", "name": "ann", "agent_id": "bob"}', 400, "differ"),
        (b'{"body": "x", "client_id": ""}', 400, "client_id"),
        (b'{"body": "x", "name": "CLAUDE"}', 403, "CLAUDE"),
        (b'{"body": "x", "name": " claude "}', 403, "claude"),
        ('{"body": "x", "name": "ＣＬＡＵＤＥ"}'.encode(), 403, "has that name"),
        (b'{"body": "x", "name": "Relay"}', 403, "Relay"),
        (b'{"body": "x", "agent_id": "CLAUDE"}', 403, "CLAUDE"),
        (b'{"body": "' + b"x" * 4097 + b'"}', 413, "4096"),
        (b'{"body": "' + b"x" * 200_000 + b'"}', 413, "larger"),
    ],
)
async def test_what_no_message_may_be(home: House, sent: bytes, status: int, says: str) -> None:
    got, data, _ = await home.ask("POST", "/api/messages", data=sent)
    error = error_of(data)
    assert got == status and says in error["message"], error
    assert home.room.messages == []


@pytest.mark.parametrize("body", ["x" * 4096, "\x01" * 4096, "é" * 2048, "/help", "NaN"])
async def test_a_message_up_to_the_limit_arrives_as_it_was(home: House, body: str) -> None:
    status, _, _ = await home.ask("POST", "/api/messages", json={"body": body, "name": "ann"})
    assert status == 201 and home.room.messages[0].body == body


async def test_a_body_that_grows_when_it_is_unpacked_is_refused(home: House) -> None:
    bomb = zlib.compress(b" " * 50_000_000)
    status, data, _ = await home.ask(
        "POST", "/api/messages", data=bomb, headers={"Content-Encoding": "deflate"}
    )
    assert status in (400, 413) and error_of(data)


@pytest.mark.parametrize(
    "path",
    [
        "/api/transcript?limit=abc",
        "/api/transcript?limit=0",
        "/api/transcript?limit=-1",
        "/api/transcript?limit=1001",
        "/api/transcript?limit=1.5",
        "/api/transcript?limit=",
        "/api/transcript?after=garbage",
        "/api/transcript?after=-1",
        "/api/transcript?after=%D9%A1",
        "/api/transcript?after=99999999999999999999999",
        "/api/transcript?after=1&before=2",
        "/api/transcript?arround=m1",
        "/api/transcript?around=",
        "/api/transcript?around=m1&after=1",
        "/api/transcript?around=m1&before=1",
        "/api/search",
        "/api/search?q=+",
        "/api/queue?state=lost",
        "/api/queue?messages=",
        "/api/queue?messages=" + ",".join(["m1"] * 151),
        "/api/agents/CLAUDE/log?limit=x",
    ],
)
async def test_a_query_that_cannot_be_meant(home: House, path: str) -> None:
    status, data, _ = await home.ask("GET", path)
    assert status == 400 and error_of(data)["fix"]


@pytest.mark.parametrize(
    ("asked", "body", "status", "shows"),
    [
        ("GET /health", None, 200, {"ok": True}),
        ("GET /api/tasks", None, 200, {"tasks": [], "undo": ""}),
        ("GET /api/tasks?status=in_progress", None, 200, {"tasks": [], "undo": ""}),
        ("GET /api/tasks?status=gone", None, 400, ...),
        ("GET /api/agents/CLAUDE/log?limit=1", None, 200, {"lines": [{"ts": ..., "text": "started"}]}),
        ("POST /api/agents/CLAUDE/pause", {}, 200, {"success": True, "reason": ...}),
        ("POST /api/agents/CLAUDE/resume", None, 200, {"success": True, "reason": ...}),
        ("POST /api/agents/CLAUDE/try", None, 200, {"success": True, "reason": ...}),
        ("POST /api/agents/CLAUDE/cancel", None, 200, {"success": False, "reason": ..., "fix": ...}),
        ("POST /api/agents/NOBODY/pause", None, 404, ...),
        ("GET /api/events/nothing/why", None, 404, ...),
        ("PATCH /api/agents/CLAUDE", {"model": None, "enabled": False}, 200, {"success": True}),
        ("PATCH /api/agents/CLAUDE", {"enabled": 1}, 400, ...),
        ("PATCH /api/agents/CLAUDE", {"model": 1}, 400, ...),
        ("PATCH /api/agents/CLAUDE", {"model": ""}, 400, ...),
        ("PATCH /api/agents/CLAUDE", {}, 400, ...),
        ("PATCH /api/agents/CLAUDE", {"cmd": "rm"}, 400, ...),
        ("POST /api/messages/m1/route", {"agents": ["CLAUDE"]}, 200, {"success": True, "reason": ...}),
        ("POST /api/messages/m1/route", {"agents": []}, 400, ...),
        ("POST /api/messages/m1/route", {"agents": "CLAUDE"}, 400, ...),
        ("POST /api/queue/7/retry", None, 200, {"success": True, "reason": ...}),
        ("POST /api/queue/j7/retry", None, 200, {"success": True, "reason": ...}),
        ("POST /api/queue/t7/retry", None, 404, ...),
        ("POST /api/queue/seven/retry", None, 404, ...),
        ("POST /api/tasks", {"title": "mend"}, 201, {"task": ...}),
        ("POST /api/tasks", {"title": " "}, 400, ...),
        ("POST /api/tasks", {"title": "x", "name": "CLAUDE"}, 403, ...),
        ("PATCH /api/tasks/9", {"status": "done"}, 404, ...),
        ("PATCH /api/tasks/t9", {"status": "finished"}, 400, ...),
        ("PATCH /api/tasks/9", {"status": "finished"}, 400, ...),
        ("PATCH /api/tasks/nine", {"status": "done"}, 404, ...),
        ("PATCH /api/tasks/9", {}, 400, ...),
        ("POST /api/tasks/undo", None, 200, {"success": True, "reason": ...}),
        ("GET /api/nothing", None, 404, ...),
        ("GET /../../etc/passwd", None, 404, ...),
        ("DELETE /api/messages", None, 405, ...),
        ("PUT /api/state", None, 405, ...),
        ("OPTIONS /api/state", None, 405, ...),
        ("TRACE /", None, 405, ...),
        ("PROPFIND /api/messages", None, 405, ...),
        ("GET /api/sign-in", None, 405, ...),
        ("GET /ws", None, 400, ...),
    ],
)
async def test_the_table(home: House, asked: str, body: Any, status: int, shows: Any) -> None:
    method, path = asked.split()
    got, data, response = await home.ask(method, path, **({} if body is None else {"json": body}))
    assert got == status, data
    if shows is ...:
        error_of(data)
    else:
        assert json.loads(json.dumps(data)).keys() == shows.keys()
        for key, value in shows.items():
            if value is not ... and not isinstance(value, list):
                assert data[key] == value
    if status == 405:
        assert response.headers["Allow"]


async def test_acts_carry_who_did_them(home: House) -> None:
    await home.ask("POST", "/api/agents/all/pause", json={"name": "ann"})
    await home.ask("PATCH", "/api/agents/CLAUDE", json={"effort": None, "model": "m", "name": "bob"})
    assert home.room.acts == [
        (Pause(()), "ann"),
        (SetAgent("CLAUDE", "m", None), "bob"),
    ]


async def test_search_and_queue_show_what_the_room_has(home: House) -> None:
    await home.room.post("<b>needle</b>", name="ann")
    _, found, _ = await home.ask("GET", "/api/search?q=needle")
    assert found["entries"][0]["snippet"] == "<b>\x01needle\x02</b>"
    _, queue, _ = await home.ask("GET", "/api/queue?state=pending&limit=5")
    assert queue["jobs"][0]["id"] == 7 and queue["jobs"][0]["state"] == "pending"


async def test_metrics_are_the_callables(home: House) -> None:
    status, text, response = await home.ask("GET", "/metrics")
    assert (
        status == 200
        and text.endswith("\nup 1.0\n")
        and response.headers["Content-Type"].startswith("text/plain")
    )


async def test_health_is_open_and_says_no_more_than_yes_or_no(home: House) -> None:
    home.room.trouble = "the disk at /home/ann is full"
    async with home.client.get("/health") as response:
        assert response.status == 503 and await response.json() == {"ok": False}


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (RuntimeError("secret detail"), 500, "internal"),
        (ExceptionGroup("many", [ValueError("secret detail")]), 500, "internal"),
        (Refusal("Too much at once.", "", Fault.BUSY), 503, "busy"),
        (Refusal("No.", "", Fault.BUSY, "of_its_own"), 503, "of_its_own"),
        (StoreBusy("the database is locked"), 503, "busy"),
    ],
)
async def test_what_the_room_raises(home: House, raised: Exception, status: int, code: str) -> None:
    home.room.fail = raised
    with structlog.testing.capture_logs() as logs:
        got, data, response = await home.ask("GET", "/api/state")
    assert got == status and error_of(data)["code"] == code
    assert "secret" not in json.dumps(data)
    if status == 500:
        assert [one for one in logs if one["log_level"] == "error" and one["exc_info"]]
    else:
        assert response.headers["Retry-After"]


async def test_the_state_may_be_asked_for_without_the_commands(home: House) -> None:
    _, whole, _ = await home.ask("GET", "/api/state")
    _, data, _ = await home.ask("GET", "/api/state?commands=no")
    assert set(whole) - set(data) == {"commands"}
    assert (await home.ask("GET", "/api/state?commands=yes"))[0] == 400


async def test_every_answer_has_the_headers_that_bind_a_page(home: House) -> None:
    csp = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
    nothing = "default-src 'none'; frame-ancestors 'none'"
    for path in ("/", "/health", "/api/state", "/api/nothing", "/metrics"):
        _, _, response = await home.ask("GET", path)
        assert response.headers["Content-Security-Policy"] == (csp if path == "/" else nothing)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers.get("Referrer-Policy") == ("no-referrer" if path == "/" else None)
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert response.headers.get("Cross-Origin-Opener-Policy") == ("same-origin" if path == "/" else None)
        assert "Server" not in response.headers


async def test_the_page_is_served_when_it_is_built(home: House, tmp_path: Path) -> None:
    async with home.client.get("/") as response:
        assert response.status == 503 and "bash scripts/setup.sh" in await response.text()
        assert response.content_type == "text/html"


async def test_the_built_pages_files_and_how_long_they_are_kept(tmp_path: Path) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "index.html").write_text("<!doctype html>")
    (static / "robots.txt").write_text("no")
    (static / "assets" / "main-1a2b.js").write_text("1")
    (static / "assets" / "way-out.js").symlink_to("/etc/passwd")
    async with house(tmp_path) as home:
        for path, kept in [
            ("/", "no-cache"),
            ("/robots.txt", "no-cache"),
            ("/assets/main-1a2b.js", "public, max-age=31536000, immutable"),
        ]:
            async with home.client.get(path) as response:
                assert response.status == 200 and response.headers["Cache-Control"] == kept
                assert ("Etag" in response.headers) == (kept == "no-cache")
        async with (
            home.client.get("/") as first,
            home.client.get("/", headers={"If-None-Match": first.headers["Etag"]}) as again,
        ):
            # A browser puts these headers in the place of those that it holds.
            assert again.status == 304
            assert again.headers["Content-Security-Policy"] == first.headers["Content-Security-Policy"]
        for path in ("/assets/way-out.js", "/assets/..%2f..%2fconfig.json", "/assets/%2e%2e/index.html"):
            async with home.client.get(path) as response:
                assert response.status in (401, 404)
                assert "root:" not in await response.text()


async def test_the_page_and_its_first_data_are_sent_compressed_to_who_takes_that(tmp_path: Path) -> None:
    static = tmp_path / "static"
    (static / "assets").mkdir(parents=True)
    (static / "assets" / "main.js").write_text("plain")
    (static / "assets" / "main.js.br").write_bytes(b"brotli")
    (static / "assets" / "main.js.gz").write_bytes(b"gzipped")
    async with house(tmp_path) as home:
        for takes, packed, text in [
            ("gzip, deflate, br", "br", b"brotli"),
            ("gzip", "gzip", b"gzipped"),
            ("identity", None, b"plain"),
        ]:
            headers = {"Accept-Encoding": takes}
            async with home.client.get("/assets/main.js", headers=headers, auto_decompress=False) as response:
                assert response.headers.get("Content-Encoding") == packed
                assert await response.read() == text
                assert response.content_type.endswith("javascript")
        async with home.client.get("/assets/main.js.br") as response:
            assert response.status == 404
        for takes, packed in [("gzip", "gzip"), ("identity", None)]:
            headers = {"Accept-Encoding": takes, "X-API-Key": home.token}
            for path in ("/api/state", "/api/transcript", "/api/queue"):
                async with home.client.get(path, headers=headers) as response:
                    assert response.headers.get("Content-Encoding") == packed
                    assert isinstance(await response.json(), dict)


async def test_one_credential_may_ask_so_much(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(requests=Rate(per_s=0.001, burst=3))) as home:
        answers = [await home.ask("GET", "/api/tasks") for _ in range(4)]
        assert [status for status, _, _ in answers] == [200, 200, 200, 429]
        assert int(answers[-1][2].headers["Retry-After"]) > 1
        async with home.client.get("/health") as response:
            assert response.status == 200


async def test_hundreds_of_posts_at_once_are_no_flood(home: House) -> None:
    posts = [home.ask("POST", "/api/messages", json={"body": str(at), "name": "a"}) for at in range(600)]
    assert {status for status, _, _ in await asyncio.gather(*posts)} == {201}
    assert len(home.room.messages) == 600


async def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path) -> None:
    async with house(tmp_path, limits=Limits(body_s=0.2)) as home:
        reader, writer = await asyncio.open_connection("127.0.0.1", home.server.port)
        head = f"POST /api/messages HTTP/1.1\r\nHost: {home.at}\r\nX-API-Key: {home.token}\r\n"
        writer.write(head.encode() + b"Content-Length: 100\r\n\r\n{")
        async with asyncio.timeout(20):
            assert b"408" in await reader.readline()
        writer.close()
