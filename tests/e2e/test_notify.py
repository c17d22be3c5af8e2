"""Places outside are told what needs people: a real server, a daemon that is killed, each need once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tests.e2e.test_acp import speaker
from tests.e2e.test_inbox import ASKS, FAILS, WORKS, act, comes, goes, needs
from tests.e2e.test_landing import IGNORED
from tests.git.repository import commit, git
from tests.outside import Json, Outside, agent, eventually, room, settings

SECRET = "whsec_" + base64.b64encode(b"a key of thirty-two bytes, or so").decode()
HOOK = "the-secret-path-of-the-hook"


@dataclass
class Told:
    """One request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        found: Json = json.loads(self.body)
        return found

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class Pocket:
    """A server over a real socket. `answers`: by path, what comes next (a status, with its headers); "hang": nothing
    comes until `go`."""

    url: str = ""
    came: list[Told] = field(default_factory=list)
    answers: dict[str, list[tuple[int | str, dict[str, str]]]] = field(default_factory=dict)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.came.append(Told(request.path, dict(request.headers), body))
        waiting = self.answers.get(request.path)
        status, headers = waiting.pop(0) if waiting else (200, {})
        if status == "hang":
            await self.go.wait()
            status = 200
        return web.Response(status=int(status), headers=headers, text=f"you sent it to {request.path}")

    def at(self, path: str) -> list[Told]:
        return [one for one in self.came if one.path == path]

    async def until(self, path: str, count: int) -> list[Told]:
        async def look() -> bool:
            return len(self.at(path)) >= count

        await eventually(look, f"{count} requests to {path}")
        return self.at(path)


@asynccontextmanager
async def pocket() -> AsyncIterator[Pocket]:
    one = Pocket()
    app = web.Application()
    app.router.add_post("/{rest:.*}", one.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    one.url = f"http://{host}:{port}"
    try:
        yield one
    finally:
        one.go.set()
        await runner.cleanup()


def configuration(url: str) -> Json:
    json_place = {"name": "desk", "url": f"{url}/{HOOK}", "secret_env": "DESK_SECRET"}
    phone = {"name": "phone", "url_env": "PHONE", "format": "ntfy", "kinds": ["failed_agent"]}
    team = {
        "name": "team",
        "url": f"{url}/services/T0/{HOOK}",
        "format": "slack",
        "page": "https://room.example",
    }
    names = ("AVA", "BEN", "DAN")
    return settings(
        *(agent(name, "asks.yaml") for name in names),
        agent("CLEO", "fails.yaml"),
        locks={"circuit_breaker": {"failure_threshold": 1, "reset_timeout": 600}},
        queue={"max_attempts": 1},
        notify=[json_place, phone, team],
    )


def signed(one: Told) -> str:
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    content = f"{one.id}.{one.headers['webhook-timestamp']}.".encode() + one.body
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


async def health(told: Outside) -> Json:
    ran = await told.script("healthcheck.sh", "--json")
    found: list[Json] = json.loads(ran.out)["checks"]
    return next(check for check in found if check["name"] == "notify")


async def test_each_need_is_told_once_over_failures_and_kills(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    folder.mkdir()
    for name, script in (("asks", ASKS), ("fails", FAILS), ("works", WORKS)):
        (folder / f"{name}.yaml").write_text(script)
    async with pocket() as outside, room(folder, configuration(outside.url)) as told:
        told.env |= {"DESK_SECRET": SECRET, "PHONE": f"{outside.url}/my-topic"}
        desk, team = f"/{HOOK}", f"/services/T0/{HOOK}"
        outside.answers = {team: [(503, {"Retry-After": "1"})], "/": [(404, {})]}
        await told.start()

        # A question: signed for the desk, of no interest to the phone, and tried again at the team.
        await told.post("@AVA keep the visits")
        question = await comes(told, "question")
        (first,) = await outside.until(desk, 1)
        assert first.headers["webhook-signature"] == signed(first)
        assert first.json == {
            "type": "need",
            **question,
            "room": "room",
            "url": f"{told.url}/#/needs",
        }
        tried, again = await outside.until(team, 2)
        assert tried.id == again.id and tried.body == again.body
        assert again.json["text"].splitlines()[0] == "Question: AVA (room)"
        assert "https://room.example/#/needs" in again.json["text"]
        assert outside.at("/") == []

        # A failed agent: the phone's server says that there is no such topic. That is given up, and said.
        await told.post("@CLEO mend the build")
        await comes(told, "failed_agent")
        (refused,) = await outside.until("/", 1)
        assert (refused.json["topic"], refused.json["priority"]) == ("my-topic", 4)
        said = await told.until_said("phone is not told what needs you: HTTP 404", speaker="RELAY")
        assert "notify test phone" in said["body"]
        check = await health(told)
        assert (check["status"], "phone is not told: HTTP 404" in check["detail"]) == ("warning", True)
        listed = json.loads((await told.relay("notify", "--json")).out)
        assert [(one["name"], one["signed"], bool(one["trouble"])) for one in listed] == [
            ("desk", True, False),
            ("phone", False, True),
            ("team", False, False),
        ]

        # Killed while the desk holds its answer back: told again after the start, under the same id.
        await outside.until(desk, 2)
        await outside.until(team, 3)
        outside.answers[desk] = [("hang", {})]
        await told.post("@BEN keep the names")
        held = (await outside.until(desk, 3))[2]
        await outside.until(team, 4)
        told.kill()
        outside.go.set()
        await told.start()
        repeated = (await outside.until(desk, 4))[3]
        assert repeated.id == held.id and repeated.json["about"] == "BEN"

        # What is settled before it was told is not told: the team asks for time, and somebody answers meanwhile.
        outside.answers[team] = [(503, {"Retry-After": "600"})]
        await told.post("@DAN keep the dates")
        await eventually(lambda: about(outside, team, "DAN", 1), "the team hears of DAN")
        late = outside.at(team)[-1]
        dan = next(need for need in (await needs(told)).values() if need["about"] == "DAN")
        assert (await act(told, dan["id"], "answer", text="The table."))["success"]
        await goes(told, dan["id"])
        # Answered before the kill: else one turn would answer it and the next message, by the answer to this one.
        await told.until_said("It is done.", speaker="DAN")
        told.kill()
        await told.start()
        await told.post("@DAN keep the times")
        await eventually(lambda: about(outside, desk, "DAN", 2), "DAN asks again")
        assert [one for one in outside.at(team) if one.id == late.id] == [late]
        listed = json.loads((await told.relay("notify", "--json")).out)
        assert (listed[2]["trouble"], listed[2]["waiting"]) == ("HTTP 503: you sent it to …", 1)
        ids = [one.id for one in outside.at(desk)]
        assert (ids.count(first.id), ids.count(held.id)) == (1, 2)

        # A message to try it, where a person asks for one.
        ran = await told.relay("notify", "test", "desk")
        assert ran.code == 0 and "desk (json) took it: HTTP 200: you sent it to …" in ran.out, ran.all
        assert outside.at(desk)[-1].headers["webhook-signature"] == signed(outside.at(desk)[-1])
        outside.answers[team] = [(302, {"Location": f"{outside.url}/elsewhere"})]
        ran = await told.relay("notify", "test", "team", "--json")
        assert ran.code == 1 and "it redirects to 127.0.0.1, which is not followed" in ran.out
        assert outside.at("/elsewhere") == []
        del told.env["PHONE"]
        ran = await told.relay("notify", "test", "phone")
        assert ran.code == 1 and "PHONE is not set in the environment of this command" in ran.out
        ran = await told.relay("notify", "test", "nobody")
        assert ran.code == 2 and "it has: desk, phone, team" in ran.err

        # Neither the addresses nor the secret are in anything that is shown or kept.
        shown = [told.said(), json.dumps(await told.get("/api/state")), told.transcript.read_text(), ran.all]
        shown += [(folder / ".relay" / "relay.log").read_text(), (await told.relay("notify")).all]
        for text in shown:
            assert HOOK not in text and SECRET not in text and "my-topic" not in text


async def about(outside: Pocket, path: str, name: str, count: int) -> bool:
    """Has the place heard so often of this agent?"""
    heard = [one.json.get("about") or one.json["text"].splitlines()[0] for one in outside.at(path)]
    return len([who for who in heard if who in (name, f"Question: {name} (room)")]) >= count


async def test_a_permission_reaches_a_pocket_while_nobody_has_the_page_open(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    ace = speaker(str(tmp_path), "permit", FAKE_KIND="execute")
    async with pocket() as outside:
        place = {"name": "phone", "url": f"{outside.url}/my-topic", "format": "ntfy", "kinds": ["permission"]}
        async with room(folder, settings(ace, notify=[place])) as told:
            await told.start()
            posted = await told.post("@ACE do it")
            (rung,) = await outside.until("/", 1)
            assert (rung.json["title"], rung.json["priority"]) == ("Permission: ACE (room)", 4)
            need = await comes(told, "permission")
            assert (await act(told, need["id"], need["actions"][0]["name"]))["success"]
            assert (await told.reply_to(posted["id"], "ACE"))["body"] == "The answer was yes."


async def test_a_variable_that_the_room_lacks_is_said_at_its_start(tmp_path: Path) -> None:
    """Before anything is to be told there, and once."""
    folder = tmp_path / "room"
    folder.mkdir()
    (folder / "asks.yaml").write_text(ASKS)
    phone = {"name": "phone", "url_env": "PHONE", "format": "ntfy"}
    async with room(folder, settings(agent("AVA", "asks.yaml"), notify=[phone])) as told:
        for _ in range(2):
            await told.start()
            unset = "phone is not told what needs you: PHONE is not set in the environment of the room"
            await told.until_said(unset, speaker="RELAY")
            assert "PHONE is not set" in (await health(told))["detail"]
            assert "is not told: PHONE is not set" in (await told.relay("notify")).out
            told.kill()
        await told.start()
        assert sum(unset in one["body"] for one in await told.entries()) == 1


async def test_an_answer_is_told_once_and_with_its_verdict(tmp_path: Path) -> None:
    """The tests of an agent's work wait for a file: the inbox asks at once, the place outside with what they say."""
    folder, go = tmp_path / "room", tmp_path / "go"
    (folder / "policies").mkdir(parents=True)
    check = (
        f"import os, sys, time; [time.sleep(0.05) for _ in iter(lambda: os.path.exists({str(go)!r}), True)]"
    )
    run = [sys.executable, "-c", f"{check}; sys.exit('it is broken')"]
    unit = {
        "name": "unit",
        "tier": 1,
        "executor": "inline",
        "patterns": ["*.py"],
        "run": run,
        "sandbox": "off",
    }
    (folder / "policies" / "all.yaml").write_text(json.dumps([unit]))
    (folder / "w.yaml").write_text(
        "- match: look around\n  delay_s: 600\n"
        "- match: break it\n  write: {app.py: 'x = 2'}\n  say: done\n- say: hello\n"
    )
    git(folder, "init", "-q", "-b", "main")
    commit(folder, {".gitignore": IGNORED, "app.py": "x = 1\n"})
    async with pocket() as outside:
        place = {"name": "desk", "url": f"{outside.url}/desk", "kinds": ["answered"]}
        async with room(folder, settings(agent("AVA", "w.yaml"), notify=[place])) as told:
            await told.start()
            await told.post("/task break it")
            await told.post("/give t1 @AVA")

            async def runs() -> Json | None:
                need = (await needs(told)).get("answered:t1")
                return need if need and "; its tests run (v1). Is it done?" in need["text"] else None

            waits = await eventually(runs, "the inbox asks while the tests run")
            assert waits["tell_at"] is not None and outside.came == []
            go.touch()
            (one,) = await outside.until("/desk", 1)
            assert "; its tests failed (v1). Is it done?" in one.json["text"], one.json
            # Neither what its agent does meanwhile nor a restart is news.
            await told.post("@AVA look around")
            await eventually(runs_on(told), "it stays while its agent works")
            told.kill()
            await told.start()
            await told.post("/cancel @AVA")
            assert "answered:t1" in await needs(told)
            # Its next answer is.
            await act(told, "answered:t1", "again")
            two = (await outside.until("/desk", 2))[1]
            assert two.json["id"] == one.json["id"] == "answered:t1" and two.json["news"] != one.json["news"]
            assert len(outside.came) == 2


def runs_on(told: Outside) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return "AVA is at work on " in (await needs(told)).get("answered:t1", {"text": ""})["text"]

    return look
