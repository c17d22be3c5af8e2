"""The room for scripts: post one message and optionally wait for its answers, or print entries once or as they come.

Invariant: exit code 0 means that the message was posted (with `--wait`: and that every job it caused has ended, with
at least one answer, and that the room refused nothing); 1 means that it was not, or that the answers did not come in
time. Answers go to stdout, refusals and notes on the connection to stderr.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from relay.base.terminal_text import indented, safe_line
from relay.faces.terminal.client import HISTORY, Down, Frame, Post, Refused, RoomClient, Wire, new_id
from relay.faces.terminal.entry import entry_lines
from relay.faces.terminal.find_room import Place
from relay.faces.terminal.wrap import wrapped

_OVER = ("done", "skipped", "dead")
#: Seconds that a post without `--wait` may take to be acknowledged.
POST_S = 30.0


@dataclass(slots=True)
class Waiting:
    """Watches the room's frames until everything that one message caused is answered. Pure.

    A folded message is answered under the later one, so that one is watched too.
    """

    ids: set[str]
    cycle: str = ""
    asked: set[str] = field(default_factory=set)
    jobs: dict[Any, dict[str, Any]] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def take(self, frame: Frame) -> list[dict[str, Any]]:
        """Take a frame; gives the entries in it that answer the message."""
        data = frame.get("data")
        if frame.get("type") == "jobs" and isinstance(data, list):
            for job in data:
                self._job(job)
            return []
        if not isinstance(data, dict):
            return []
        match frame.get("type"):
            case "state":
                self.agents = {str(each.get("name")): each for each in data.get("agents") or ()}
            case "agent":
                self.agents[str(data.get("name"))] = data
            case "receipt":
                self._job(data)
            case "cycle" if data.get("message_id") in self.ids:
                self.cycle = str(data.get("state"))
                self.asked |= set(data.get("agents") or ()) if self.cycle == "routed" else set()
                self._fold(data)
            case "entry" if data.get("id") not in self._seen:
                if data.get("in_reply_to") in self.ids or data.get("job") in self.jobs:
                    self._seen.add(str(data.get("id")))
                    self.answers.append(data)
                    return [data]
        return []

    def _job(self, job: dict[str, Any]) -> None:
        if job.get("message_id") in self.ids:
            self.jobs[job.get("id")] = job
            self._fold(job)

    def _fold(self, data: dict[str, Any]) -> None:
        into = data.get("folded_into")
        if isinstance(into, str) and into not in self.ids:
            self.ids.add(into)
            self.cycle = ""

    @property
    def waits(self) -> list[str]:
        """Which agents wait for a machine of the fleet that cannot be reached: a sentence for each."""
        names = [str(job.get("agent")) for job in self.jobs.values() if job.get("state") not in _OVER]
        away = {name: agent for name in names if (agent := self.agents.get(name, {})).get("away")}
        return [
            f"{safe_line(name, 64)} waits for {safe_line(str(agent.get('member')), 64)}: "
            f"{safe_line(str(agent.get('absence')), 200)}."
            for name, agent in away.items()
        ]

    @property
    def is_over(self) -> bool:
        """Has the room itself answered, or has each agent that was asked ended?"""
        if self.cycle == "none":
            return True
        if self.cycle in ("absorbed", "clarified", "commanded"):
            return bool(self.answers)
        if not self.jobs or not self.asked <= {str(job.get("agent")) for job in self.jobs.values()}:
            return bool(self.answers) and not self.jobs and not self.asked
        answered = {answer.get("job") for answer in self.answers} | {
            answer.get("id") for answer in self.answers
        }
        return all(
            job.get("state") in _OVER
            and (job.get("state") != "done" or job.get("id") in answered or job.get("answer_id") in answered)
            for job in self.jobs.values()
        )


async def say(place: Callable[[], Place], name: str, body: str, wait_s: float | None, as_json: bool) -> int:
    """Post `body`; with `wait_s`, print what answers it within that many seconds."""
    body = body.rstrip("\n")
    if not body.strip():
        _tell("nothing to say: the text is empty")
        return 1
    post, waiting = Post(body, new_id()), Waiting(set())
    async with RoomClient(place, name, history=0).open() as client:
        try:
            if wait_s is None:
                return await _say_only(client, post, as_json)
            async with asyncio.timeout(wait_s):
                return await _say_and_wait(client, post, waiting, as_json)
        except TimeoutError:
            where = "it may not have arrived"
            if post.id:
                where = "it is in the transcript" if post.written else "it is in the room"
            elif post.waits and not post.reached:
                where = f"it was not sent. {post.waits}"
            told = f"no full answer in {wait_s or POST_S:g} s; {where}"
            _tell(" ".join([f"{told}." if waiting.waits else told, *waiting.waits]))
        except Refused as error:
            _tell(str(error))
        except (OSError, ValueError) as error:
            _tell(f"the room is down, and so is its transcript: {error}")
    return 1


async def _say_only(client: RoomClient, post: Post, as_json: bool) -> int:
    async with asyncio.timeout(POST_S):
        await _deliver(client, post)
    if post.written:
        _tell("it is written to the transcript, and answered when the room is back")
    if as_json:
        _print({**post.ack, "id": post.id, "written": post.written})
    return 0


async def _deliver(client: RoomClient, post: Post) -> None:
    """Send the post until the room or the transcript has it: for ever where neither can be reached. Raises
    Refused."""
    pause = 0.2
    while not post.id:
        try:
            await client.attempt(post)
        except Refused as error:
            if not error.passing:
                raise
            await asyncio.sleep(error.wait_s)
        except Down as error:
            if await client.write_past(post):
                _tell(f"the room is down: {error}")
            else:
                if pause == 0.2:
                    _tell(f"the room is down ({error}); trying again")
                await asyncio.sleep(pause)
                pause = min(pause * 2, 5.0)


async def _say_and_wait(client: RoomClient, post: Post, waiting: Waiting, as_json: bool) -> int:
    early: list[Frame] = []
    async with aclosing(client.frames()) as frames:
        async for frame in frames:
            if not isinstance(frame, Wire):
                early.append(frame)
            elif not post.id:
                # The room is followed from here on, so no answer is missed: frames wait in the socket.
                if frame.state != "live":
                    client.history = HISTORY  # an answer given before we are back is among the newest entries
                await _deliver(client, post)
                waiting.ids.add(post.id)
                if post.written:
                    _tell("written to the transcript, waiting for it to come back")
            if post.id:
                for entry in [entry for each in early for entry in waiting.take(each)]:
                    if _is_refusal(entry):
                        _tell(str(entry.get("body")))
                    if as_json or not _is_refusal(entry):
                        _show(entry, as_json)
                early.clear()
                if waiting.is_over:
                    return _verdict(waiting)
    return 1


def _verdict(waiting: Waiting) -> int:
    for job in waiting.jobs.values():
        if job.get("state") != "done":
            state = "gave up" if job.get("state") == "dead" else job.get("state")
            _tell(f"{job.get('agent')}: {state}, {job.get('reason') or 'no reason given'}")
    if not waiting.answers:
        _tell("nobody answered")
    return 0 if waiting.answers and not any(map(_is_refusal, waiting.answers)) else 1


def _is_refusal(entry: dict[str, Any]) -> bool:
    """Did the room not do what it was told?"""
    meta = entry.get("meta")
    return isinstance(meta, dict) and meta.get("error") is True


async def read(place: Callable[[], Place], name: str, last: int, follow: bool, as_json: bool) -> int:
    """Print the newest `last` entries and, with `follow`, every later one."""
    async with RoomClient(place, name, history=last).open() as client:
        if not follow:
            try:
                for entry in (await client.transcript(last))["entries"]:
                    _show(entry, as_json)
            except (Down, Refused) as error:
                _tell(str(error))
                return 1
            return 0
        was = ""
        async with aclosing(client.frames()) as frames:
            async for frame in frames:
                if isinstance(frame, Wire):
                    if frame.state != was and (was or frame.state != "live"):
                        _tell(
                            f"the room is {'back' if frame.state == 'live' else frame.state}: {frame.detail}"
                        )
                    was = frame.state
                elif frame.get("type") == "entry" and isinstance(frame.get("data"), dict):
                    _show(frame["data"], as_json)
    return 0


def _show(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _print(entry)
        return
    # In a pipe no line is broken.
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    lines = entry_lines(entry, {}, today=datetime.now().astimezone().date(), columns=columns)
    if columns:
        lines = [row for line in lines for row in wrapped(line, columns)]
    print("\n".join("".join(piece for _, piece in line) for line in lines), flush=True)


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value, ensure_ascii=True), flush=True)


def _tell(line: str) -> None:
    print(indented(line), file=sys.stderr, flush=True)
