#!/usr/bin/env python3
"""An agent that speaks ACP over standard input and output, with the agent's side of the `acp` package.

FAKE_ACT says what it does with a prompt, FAKE_CAPS which of `load`, `resume` and `steering` it can, FAKE_DIR where it
notes what it was told (`told.jsonl`) and keeps its conversations. FAKE_PATH is the file of the acts about one.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__" and "--version" in sys.argv:  # without what takes half a second to import
    print("fake-acp 1.2.3")
    raise SystemExit

from pydantic import BaseModel

BaseModel.model_config["defer_build"] = True  # of the protocol's hundreds of models few are used

import acp  # noqa: E402
from acp import RequestError, schema  # noqa: E402

ACT = os.environ.get("FAKE_ACT", "answer")
FOLDER = Path(os.environ["FAKE_DIR"])
PATH = os.environ.get("FAKE_PATH", "a.py")
CAPS = os.environ.get("FAKE_CAPS", "").split()
STEP_S = float(os.environ.get("FAKE_S", "0.01"))
OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="always", name="Always", kind="allow_always"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]


def note(what: str, **more: Any) -> None:
    with (FOLDER / "told.jsonl").open("a") as file:
        file.write(json.dumps({"what": what, **more}) + "\n")


class Fake:
    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        #: What the running prompt was steered with, and has not taken in; None: no prompt runs.
        self.steers: list[str] | None = None
        self.steered = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        self.conn = conn

    async def initialize(self, protocol_version: int, **more: Any) -> schema.InitializeResponse:
        able = more["client_capabilities"]
        note("initialize", read=able.fs.read_text_file, write=able.fs.write_text_file, terminal=able.terminal)
        if ACT == "mute":
            await asyncio.Event().wait()
        sessions = schema.SessionCapabilities(
            resume=schema.SessionResumeCapabilities() if "resume" in CAPS else None
        )
        capabilities = schema.AgentCapabilities(load_session="load" in CAPS, session_capabilities=sessions)
        version = 7 if ACT == "version" else protocol_version
        # At the top level, as the adapters of claude and codex say it (docs/doors.md, section 4).
        meta = {"steering": {"supported": True}} if "steering" in CAPS else None
        return schema.InitializeResponse(
            protocol_version=version, agent_capabilities=capabilities, field_meta=meta
        )

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method != "session/steering" or ACT == "unknowing":
            raise RequestError.method_not_found(f"_{method}")
        assert params["_meta"] == {"steering": {"idleBehavior": "promptRequired"}}
        text = params["prompt"][0]["text"]
        note("steer", text=text)
        if self.steers is None:
            return {"outcome": "promptRequired", "reason": "noRunningTurn"}
        self.steers.append(text)
        self.steered.set()
        return {"outcome": "injected"}

    def take_in(self) -> bool:
        """What the next request of the prompt has."""
        taken = self.steers or []
        self.steers = []
        self.steered.clear()
        for text in taken:
            note("taken", text=text)
        return bool(taken)

    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        note("new", cwd=cwd)
        self.servers = more.get("mcp_servers") or []
        for one in self.servers:
            note("mcp", server=one.model_dump(mode="json"))
        if ACT == "auth":
            raise RequestError.auth_required()
        session = f"s{len(list(FOLDER.glob('session-*')))}"
        (FOLDER / f"session-{session}").write_text("")
        modes = [schema.SessionMode(id="default", name="Default"), schema.SessionMode(id="free", name="Free")]
        return schema.NewSessionResponse(
            session_id=session,
            modes=schema.SessionModeState(current_mode_id="free", available_modes=modes),
        )

    async def load_session(self, session_id: str, **more: Any) -> schema.LoadSessionResponse:
        self._find("load", session_id)
        await self.say(session_id, "this was said long ago")
        self.late = asyncio.create_task(self._late(session_id))
        return schema.LoadSessionResponse()

    async def _late(self, session: str) -> None:
        """As Gemini does: after the answer."""
        await asyncio.sleep(0.05)
        await self.say(session, "and this too")

    async def resume_session(self, session_id: str, **more: Any) -> schema.ResumeSessionResponse:
        self.servers = more.get("mcp_servers") or []
        self._find("resume", session_id)
        return schema.ResumeSessionResponse()

    def _find(self, how: str, session: str) -> None:
        note(how, session=session)
        if not (FOLDER / f"session-{session}").exists():
            raise RequestError.resource_not_found(session)

    async def set_session_mode(self, mode_id: str, **more: Any) -> schema.SetSessionModeResponse:
        note("mode", mode=mode_id)
        return schema.SetSessionModeResponse()

    async def cancel(self, session_id: str, **more: Any) -> None:
        note("cancel", session=session_id)
        self.cancelled.set()

    async def say(self, session: str, text: str) -> None:
        block = schema.TextContentBlock(type="text", text=text)
        update = schema.AgentMessageChunk(session_update="agent_message_chunk", content=block)
        await self.conn.session_update(session_id=session, update=update)

    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> schema.PromptResponse:
        self.cancelled.clear()
        text = prompt[0].text
        note("prompt", session=session_id, text=text)
        self.steers = []
        stop = await getattr(self, f"act_{ACT}")(session_id, text)
        self.steers = None
        usage = schema.Usage(input_tokens=12, output_tokens=9, total_tokens=24, cached_read_tokens=3)
        return schema.PromptResponse(stop_reason=stop or "end_turn", usage=usage)

    # -- acts; each may give a stop reason

    async def act_answer(self, session: str, text: str) -> None:
        await self.say(session, "Hello ")
        await self.say(session, "there.")

    async def act_work(self, session: str, text: str) -> None:
        """Text, a tool, an answer; again with what came meanwhile. What comes ends the tool."""
        await self.say(session, "Let me look.")
        tell = self.conn.session_update
        await tell(session, acp.start_tool_call("t1", "make test", kind="execute", status="in_progress"))
        waits = asyncio.create_task(self.steered.wait())
        await asyncio.wait([waits], timeout=STEP_S)
        waits.cancel()
        await tell(session, acp.update_tool_call("t1", status="completed"))
        self.take_in()
        while True:
            await asyncio.sleep(STEP_S)
            if not self.take_in():
                self.steers = None  # at once: what was injected is always taken in before the prompt ends
                break
        await self.say(session, "Done.")

    act_unknowing = act_work

    async def act_twice(self, session: str, text: str) -> str | None:
        """Ask for an edit; what the guard refuses begins a second prompt, which works."""
        if "cut you off" in text:
            return await self.act_work(session, text)
        return await self.act_permit(session, text)

    async def act_tools(self, session: str, text: str) -> None:
        await self.say(session, "Let me look.")
        tell = self.conn.session_update
        await tell(session, acp.start_tool_call("t1", "Preparing…", kind="edit", status="pending"))
        diff = acp.tool_diff_content("src/a.py", "2\n", "two\n")
        locations = [schema.ToolCallLocation(path="src/a.py", line=2)]
        await tell(
            session, acp.update_tool_call("t1", title="Edit src/a.py", content=[diff], locations=locations)
        )
        late = [schema.ToolCallLocation(path="src/b.py", line=7), schema.ToolCallLocation(path="src/a.py")]
        await tell(session, acp.update_tool_call("t1", status="completed", locations=late))
        await tell(session, acp.start_tool_call("t2", "make test", kind="execute", status="in_progress"))
        await tell(session, acp.start_tool_call("t3", "Read c.py", kind="read", locations=[late[1]]))
        await self.say(session, "Done.")

    async def act_permit(self, session: str, text: str) -> str | None:
        """Edit PATH, after asking; say how the answer was."""
        kind = os.environ.get("FAKE_KIND", "edit")
        diff = [acp.tool_diff_content(PATH, "2\n", "two\n")] if kind == "edit" else []
        call = schema.ToolCallUpdate(
            tool_call_id="t1",
            title=os.environ.get("FAKE_TITLE", f"{kind} {PATH}"),
            kind=kind,
            content=diff,
            raw_input={"command": os.environ["FAKE_COMMAND"]} if "FAKE_COMMAND" in os.environ else None,
        )
        answer = await self.conn.request_permission(session_id=session, tool_call=call, options=OPTIONS)
        chosen = getattr(answer.outcome, "option_id", answer.outcome.outcome)
        note("answer", chosen=chosen)
        if chosen == "cancelled":
            await self.cancelled.wait()
            return "cancelled"
        if chosen == "yes" and kind == "edit":
            Path(PATH).write_text("one\n2\n")
        await self.say(session, f"The answer was {chosen}.")
        return None

    async def act_steered(self, session: str, text: str) -> str | None:
        """Ask for an edit, unless the room has said not to."""
        if "cut you off" not in text:
            return await self.act_permit(session, text)
        await self.say(session, "I steer clear.")
        return None

    async def act_unasked(self, session: str, text: str) -> str | None:
        """Edit by its own hand, as the second version of the protocol has it, tell it afterwards, and go on until
        told to end; when it is cut off for that, take the edit back."""
        if "cut you off" in text:
            Path(PATH).write_text("one\ntwo\n")
            await self.say(session, "I took it back.")
            return None
        Path(PATH).write_text("one\n2\n")
        places = [schema.ToolCallLocation(path=PATH)]
        await self.conn.session_update(
            session,
            acp.start_tool_call("t1", f"Edit {PATH}", kind="edit", status="completed", locations=places),
        )
        if os.environ.get("FAKE_KIND") == "ends":
            await self.say(session, "Done.")
            return None
        await self.cancelled.wait()
        return "cancelled"

    async def act_merges(self, session: str, text: str) -> str | None:
        """Commit what there is and merge main by its own git; with FAKE_KIND `edits`, change PATH after it."""
        if "cut you off" in text:
            await self.say(session, "I was cut off.")
            return None
        own = ("git", "-c", "user.name=ace", "-c", "user.email=ace@x")
        for words in (("add", "-A"), ("commit", "-q", "-m", "mine"), ("merge", "-q", "--no-edit", "main")):
            subprocess.run([*own, *words], check=True, capture_output=True)  # noqa: ASYNC221
        if os.environ.get("FAKE_KIND") == "edits":
            Path(PATH).write_text("mine\n")
        await self.conn.session_update(
            session, acp.start_tool_call("t1", "git merge main", kind="execute", status="completed")
        )
        await self.say(session, "Merged.")
        return None

    async def act_stubborn_deaf(self, session: str, text: str) -> str | None:
        """Ask for an edit, and do not end the prompt when told to."""
        call = schema.ToolCallUpdate(tool_call_id="t1", title="edit", kind="edit", locations=[{"path": PATH}])
        await self.conn.request_permission(session_id=session, tool_call=call, options=OPTIONS)
        await asyncio.Event().wait()
        return None

    async def act_files(self, session: str, text: str) -> None:
        """Write PATH and read it again through the client; say what came of it."""
        for ask in (
            lambda: self.conn.write_text_file(session_id=session, path=PATH, content="new\ntext\n"),
            lambda: self.conn.read_text_file(session_id=session, path=PATH, line=2, limit=1),
            lambda: self.conn.create_terminal(session_id=session, command="true"),
        ):
            try:
                answer = await ask()
                await self.say(session, f"{getattr(answer, 'content', 'written')!r} ")
            except RequestError as error:
                await self.say(session, f"{error.code} {error} ")

    async def act_room(self, session: str, text: str) -> None:
        """Start the MCP server that was handed over, count its tools, lock PATH; say what came of it."""
        from mcp import Client, StdioServerParameters
        from mcp.client.stdio import stdio_client

        (one,) = self.servers
        env = {name: value for name, value in os.environ.items() if not name.startswith("RELAY_")}
        env |= {pair.name: pair.value for pair in one.env}
        place = StdioServerParameters(command=one.command, args=one.args, env=env)
        async with Client(stdio_client(place), mode="legacy") as client:
            count = len((await client.list_tools()).tools)
            got = (await client.call_tool("acquire_lock", {"file_path": PATH})).structured_content
        (lock,) = got["locks"]
        await self.say(session, f"{count} tools, {got['action']} by {lock['locked_by']} in {lock['session']}")

    async def act_hang(self, session: str, text: str) -> str:
        await self.say(session, "thinking")
        await self.cancelled.wait()
        return "cancelled"

    async def act_deaf(self, session: str, text: str) -> None:
        """Hang with a process of its own, whatever is said."""
        child = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
        (FOLDER / "child").write_text(str(child.pid))
        await self.say(session, "working")
        await asyncio.Event().wait()

    async def act_crash(self, session: str, text: str) -> None:
        await self.say(session, "half of it")
        print("Fatal: out of \x1b[31mink\x1b[0m", file=sys.stderr, flush=True)
        await asyncio.sleep(0.1)
        os._exit(3)

    async def act_leave(self, session: str, text: str) -> None:
        os._exit(0)

    async def act_garbage(self, session: str, text: str) -> None:
        for line in (
            "npm warn deprecated",
            "{",
            "[1,2]",
            '{"jsonrpc":"2.0"}',
            '{"id":[],"result":1}',
            "\x00\xff",
        ):
            sys.stdout.buffer.write(line.encode("latin-1") + b"\n")
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","method":"session/update","params":{"what":"is this"}}\n')
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","method":"_own/thing","params":{}}\n')
        sys.stdout.buffer.flush()
        await self.act_answer(session, text)

    async def act_huge(self, session: str, text: str) -> None:
        for _ in range(40):
            await self.say(session, "x" * 50_000)

    async def act_oversize(self, session: str, text: str) -> None:
        await self.say(session, "y" * 5_000_000)
        await self.say(session, "short")

    async def act_flood(self, session: str, text: str) -> None:
        for number in range(5000):
            await self.say(session, f"{number} ")

    async def act_quota(self, session: str, text: str) -> None:
        raise RequestError(-32603, "Internal error", {"details": "429 rate limit: try again in 37s"})

    async def act_refusal(self, session: str, text: str) -> str:
        await self.say(session, "no")
        return "refusal"

    async def act_silent(self, session: str, text: str) -> None:
        return None

    async def act_version(self, session: str, text: str) -> None:
        raise AssertionError


if __name__ == "__main__":
    asyncio.run(acp.run_agent(Fake(), use_unstable_protocol=True))
