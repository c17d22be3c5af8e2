#!/usr/bin/env python3
"""A codex whose `app-server` speaks its protocol over standard input and output, as 0.169.0 does (docs/doors.md).

FAKE_ACT says what a turn does; FAKE_DIR is the folder where it notes what it was told (`told.jsonl`) and keeps the
users' words of each conversation (`thread-ID`): what a real one would send to its model. Times are FAKE_S seconds.
A turn takes in what it was steered with before its next request, as the real one: at the end of a tool, or when the
last answer is made; with nothing to take in it then ends, and steers are refused from that moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ["FAKE_DIR"])
ACT = os.environ.get("FAKE_ACT", "answer")
STEP_S = float(os.environ.get("FAKE_S", "0.01"))
USED = {"inputTokens": 120, "cachedInputTokens": 20, "cacheWriteInputTokens": 0, "outputTokens": 9}
TOOLS = [
    {
        "type": "mcpToolCall",
        "id": "t1",
        "server": "relay",
        "tool": "acquire_lock",
        "status": "inProgress",
        "arguments": {"file_path": "src/a.py"},
    },
    {
        "type": "fileChange",
        "id": "t2",
        "status": "completed",
        "changes": [{"path": "src/a.py", "kind": {"type": "update"}, "diff": "+x"}],
    },
    {"type": "webSearch", "id": "t3", "query": "herons", "action": None, "results": None},
]
HELPER = "01a2079f-047c-7393-9e2c-0d093a21ec2b"


def note(what: str, **more: Any) -> None:
    with (FOLDER / "told.jsonl").open("a") as file:
        file.write(json.dumps({"what": what, **more}) + "\n")


def put(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Refusal(Exception):
    pass


class Server:
    def __init__(self) -> None:
        self.thread = ""
        self.turn = ""
        self.requests = 0
        self.total = 0
        self.pending: list[dict[str, Any]] = []
        self.steered = asyncio.Event()
        self.interrupted = asyncio.Event()
        self.answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def tell(self, method: str, **params: Any) -> None:
        put({"method": method, "params": {"threadId": self.thread, **params}, "emittedAtMs": 1})

    def item(self, item: dict[str, Any], *, both: bool = True, end: bool = False, thread: str = "") -> None:
        for method in ["item/started"] * (not end) + ["item/completed"] * (both or end):
            self.tell(method, item=item, turnId=self.turn, **({"threadId": thread} if thread else {}))

    async def ask(self, method: str, **params: Any) -> Any:
        number = len(self.answers)
        self.answers[number] = asyncio.get_running_loop().create_future()
        put({"method": method, "id": number, "params": {"threadId": self.thread, **params}})
        return await self.answers[number]

    # -- what it is asked

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        note(method, **params)
        match method:
            case "initialize":
                if ACT == "mute":
                    raise TimeoutError
                return {"userAgent": "relay/0.169.0", "codexHome": str(FOLDER)}
            case "thread/start":
                self.thread = f"s{len(list(FOLDER.glob('thread-*')))}"
                (FOLDER / f"thread-{self.thread}").write_text("")
                return {"thread": {"id": self.thread}}
            case "thread/resume":
                if not (FOLDER / f"thread-{params['threadId']}").exists():
                    raise Refusal(f"no rollout found for thread id {params['threadId']}")
                self.thread = params["threadId"]
                self.total = 1000
                self.tell("thread/tokenUsage/updated", turnId="before", tokenUsage=self.usage())
                return {"thread": {"id": self.thread}}
            case "turn/start":
                self.turn = "turn-1"
                self.begin(self.run(params))
                return {"turn": {"id": self.turn, "status": "inProgress"}}
            case "turn/steer":
                if not self.turn:
                    raise Refusal("no active turn to steer")
                if ACT == "review":
                    raise Refusal("cannot steer a review turn")
                if params["expectedTurnId"] != self.turn:
                    raise Refusal(f"expected active turn id `{params['expectedTurnId']}`")
                self.pending.append(params)
                self.steered.set()
                return {"turnId": self.turn}
            case "turn/interrupt":
                self.interrupted.set()
                return {}
        raise Refusal(f"unknown {method}")

    def begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            message = json.loads(line)
            if "method" not in message:
                self.answers[message["id"]].set_result(message.get("result") or message["error"])
            elif "id" in message:
                try:
                    put({"id": message["id"], "result": self.request(message["method"], message["params"])})
                except Refusal as refusal:
                    put({"id": message["id"], "error": {"code": -32600, "message": str(refusal)}})
                except TimeoutError:
                    continue

    # -- a turn

    def usage(self) -> dict[str, Any]:
        return {"total": {"totalTokens": self.total}, "last": USED, "modelContextWindow": 1}

    def take_in(self, params: dict[str, Any]) -> None:
        text = params["input"][0]["text"]
        with (FOLDER / f"thread-{self.thread}").open("a") as file:
            file.write(json.dumps(text) + "\n")
        told = {
            "type": "userMessage",
            "id": "u",
            "clientId": params.get("clientUserMessageId"),
            "content": [],
        }
        self.item(told)

    def take_all_in(self) -> bool:
        """What the next request has."""
        taken, self.pending = self.pending, []
        self.steered.clear()
        for params in taken:
            self.take_in(params)
        return bool(taken)

    def requested(self) -> None:
        self.requests += 1
        self.total += 129
        for _ in range(2):  # the real one may tell it again with the limits
            self.tell("thread/tokenUsage/updated", turnId=self.turn, tokenUsage=self.usage())

    def say(self, *pieces: str) -> None:
        ident = f"m{self.requests}"
        self.item({"type": "agentMessage", "id": ident, "text": ""}, both=False)
        for piece in pieces:
            self.tell("item/agentMessage/delta", turnId=self.turn, itemId=ident, delta=piece)
        self.item({"type": "agentMessage", "id": ident, "text": "".join(pieces)}, end=True)
        self.requested()

    def end(self, status: str = "completed", **error: Any) -> None:
        turn, self.turn = self.turn, ""
        self.tell("turn/completed", turn={"id": turn, "status": status, "error": error or None})

    async def run(self, params: dict[str, Any]) -> None:
        self.tell("turn/started", turn={"id": self.turn, "status": "inProgress"})
        self.take_in(params)
        await getattr(self, f"act_{ACT.replace('-', '_')}")()

    async def tool(self, command: str = "sleep 1") -> bool:
        """A command of the shell, which a steer or an interrupt cuts short; was it an interrupt?"""
        item = {"type": "commandExecution", "id": "c1", "command": command, "status": "inProgress"}
        self.item(item, both=False)
        waits = [asyncio.create_task(event.wait()) for event in (self.steered, self.interrupted)]
        seconds = None if ACT == "hang" else STEP_S
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        self.item({**item, "status": "completed", "exitCode": 0}, end=True)
        return self.interrupted.is_set()

    async def act_answer(self) -> None:
        self.say("Hello ", "there.")
        self.end()

    async def act_work(self) -> None:
        """Text, a tool, an answer; again with what came meanwhile."""
        self.say("Let me look.")
        if await self.tool():
            return self.end("interrupted")
        self.take_all_in()
        while True:
            await asyncio.sleep(STEP_S)
            if self.take_all_in():
                continue
            self.say("Done.")
            return self.end()

    act_hang = act_work
    act_review = act_work

    async def act_deaf(self) -> None:
        self.say("working")
        await asyncio.Event().wait()

    async def act_tools(self) -> None:
        self.say("Let me look.")
        for item in TOOLS:
            self.item(item)
        self.say("Done.")
        self.end()

    async def act_helper(self) -> None:
        call = {"type": "collabAgentToolCall", "id": "h1", "tool": "spawnAgent", "prompt": "Count the files."}
        call |= {"senderThreadId": self.thread, "status": "inProgress"}
        self.item({**call, "receiverThreadIds": [], "agentsStates": {}}, both=False)
        begun = {HELPER: {"status": "pendingInit", "message": None}}
        self.item({**call, "receiverThreadIds": [HELPER], "agentsStates": begun}, end=True)
        shell = {"type": "commandExecution", "id": "c2", "command": "ls", "status": "inProgress"}
        self.item(shell, thread=HELPER)
        self.item({"type": "agentMessage", "id": "x", "text": "not its answer"}, thread=HELPER)
        wait = {**call, "id": "h2", "tool": "wait", "prompt": None, "receiverThreadIds": [HELPER]}
        done = {HELPER: {"status": "completed", "message": "There are 2 files."}}
        self.item({**wait, "agentsStates": {}}, both=False)
        self.item({**wait, "agentsStates": done}, end=True)
        self.say("Two.")
        self.end()

    async def act_asks(self) -> None:
        change = {"type": "fileChange", "id": "f1", "status": "inProgress"}
        path = os.environ.get("FAKE_PATH", "a.py")
        self.item({**change, "changes": [{"path": path, "kind": {"type": "update"}}]}, both=False)
        questions = [
            ("item/commandExecution/requestApproval", {"command": "rm -r x", "itemId": "c1"}),
            ("item/fileChange/requestApproval", {"itemId": "f1"}),
            ("item/tool/requestUserInput", {"questions": []}),
            ("something/new", {}),
        ]
        for method, params in questions:
            note("answer", to=method, answer=await self.ask(method, **params))
        self.say("Asked.")
        self.end()

    async def act_limit(self) -> None:
        window = {"windowDurationMins": 300, "usedPercent": 42, "resetsAt": 4_000_000_000}
        empty = {"primary": None, "secondary": None, "rateLimitReachedType": None, "planType": "plus"}
        tell = "account/rateLimits/updated"
        self.tell(tell, rateLimits={**empty, "primary": window})
        self.tell(tell, rateLimits={**empty, "primary": window})
        spent = {"windowDurationMins": 10080, "usedPercent": 100, "resetsAt": 4_000_003_600}
        self.tell(tell, rateLimits={**empty, "secondary": spent})
        text = "You’ve hit your usage limit. Try again later."
        self.tell("error", error={"message": text}, willRetry=False)
        self.end("failed", message=text, codexErrorInfo="usageLimitExceeded")

    async def act_sign_in(self) -> None:
        self.end("failed", message="It refuses.", codexErrorInfo="unauthorized")

    async def act_status(self) -> None:
        info = {"responseTooManyFailedAttempts": {"httpStatusCode": 429}}
        self.end("failed", message="exceeded retry limit", codexErrorInfo=info, additionalDetails="in a loop")

    async def act_broken(self) -> None:
        self.end("failed", message="the sandbox broke", codexErrorInfo="sandboxError")

    async def act_reconnect(self) -> None:
        self.tell("error", error={"message": "Reconnecting... 2/5"}, willRetry=True)
        await asyncio.Event().wait()

    async def act_silent(self) -> None:
        self.end()

    async def act_crash(self) -> None:
        self.say("half of it")
        print("Fatal: out of ink", file=sys.stderr, flush=True)
        await asyncio.sleep(0.1)
        os._exit(3)

    async def act_garbage(self) -> None:
        for line in (
            "npm warn",
            "{",
            "[1]",
            '{"method":"item/started","params":{}}',
            '{"id":999,"result":{}}',
        ):
            print(line, flush=True)
        self.tell("item/started", item={"type": "commandExecution"})
        self.tell("turn/completed", turn={"id": "another", "status": "completed"})
        await self.act_answer()


def main() -> None:
    if "--version" in sys.argv:
        print("codex-cli 9.8.7")
    elif sys.argv[1:] == ["app-server", "--help"]:
        note("help")
        print("Usage: codex app-server [OPTIONS]")
    elif sys.argv[1:3] == ["login", "status"]:
        sys.exit("Not logged in")
    elif sys.argv[1] == "app-server":
        note("argv", argv=sys.argv[1:], env=dict(os.environ))
        asyncio.run(Server().serve())
    else:
        note("exec", argv=sys.argv[1:])
        prompt = sys.stdin.read()
        assert prompt
        for event in (
            {"type": "thread.started", "thread_id": "s-exec"},
            {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "By exec."}},
            {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
        ):
            put(event)


main()
