"""A stand-in for `claude -p --input-format stream-json` with a model that calls a tool every few seconds.

It speaks the part of the protocol that relay uses (docs/doors.md, section 1), started by `scripts.bench.steering`
under the name `claude`. BENCH_TOOL_S: seconds of a tool; BENCH_TOOLS: how many a turn has; BENCH_SEEN: a file to
which it appends one JSON a line, `{at, what: prompt|boundary|taken|late, text}`. With BENCH_TOOL_S of 0 a tool takes
a random time of up to 100 ms.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
import time
import uuid
from collections import deque
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def put(**event: object) -> None:
    print(json.dumps(event), flush=True)


def lifecycle(message: Json, state: str) -> None:
    put(type="command_lifecycle", command_uuid=message["uuid"], state=state, session_id="s")


def tokens(message: Json) -> list[str]:
    """What it is told, by the words `tok-...` of what it is to answer."""
    text = message["message"]["content"].rpartition("The message to answer:")[2]
    return re.findall(r"tok-[0-9a-f]+", text)


class Program:
    """One process: the prompt's turn, and one more for each message that came too late for it."""

    def __init__(self) -> None:
        self.tool_s, self.tools = float(os.environ["BENCH_TOOL_S"]), int(os.environ["BENCH_TOOLS"])
        self.seen = Path(os.environ["BENCH_SEEN"]).open("a", buffering=1)  # noqa: SIM115 - it lives as long as we
        self.queued: deque[Json] = deque()
        self.came = threading.Condition()
        self.ended = False

    def run(self) -> None:
        threading.Thread(target=self.read, daemon=True).start()
        what = "prompt"
        while True:
            with self.came:
                self.came.wait_for(lambda: self.queued or self.ended)
                if not self.queued:
                    return
                message = self.queued.popleft()
            self.turn(message, what)
            what = "late"

    def read(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if message["type"] == "control_request":
                response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
                put(type="control_response", response=response)
            elif message["type"] == "user":
                with self.came:
                    self.queued.append(message)
                    lifecycle(message, "queued")
                    self.came.notify()
        with self.came:
            self.ended = True
            self.came.notify()

    def see(self, what: str, text: str = "") -> None:
        self.seen.write(json.dumps({"at": time.time(), "what": what, "text": text}) + "\n")

    def turn(self, first: Json, what: str) -> None:
        self.see(what, first["message"]["content"])
        lifecycle(first, "started")
        put(type="system", subtype="init", session_id="s", capabilities=["msg_lifecycle_v1"])
        under_way = [first]
        for number in range(self.tools if what == "prompt" else 0):
            under_way += self.tool(f"t{number}")
        said = " ".join(token for message in under_way for token in tokens(message))
        answer = {"type": "text", "text": f"done {said}".rstrip()}
        put(type="assistant", message={"id": str(uuid.uuid4()), "content": [answer]})
        uuids = [message["uuid"] for message in under_way]
        usage = {"input_tokens": 1, "output_tokens": 1}
        put(
            type="result",
            is_error=False,
            result=answer["text"],
            session_id="s",
            usage=usage,
            user_message_uuids=uuids,
        )
        for message in under_way:
            lifecycle(message, "completed")

    def tool(self, id: str) -> list[Json]:
        """Use a tool; the messages that are taken in behind it."""
        call = {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "make test"}}
        put(type="assistant", message={"id": str(uuid.uuid4()), "content": [call]})
        time.sleep(self.tool_s or random.random() / 10)
        put(type="user", message={"content": [{"type": "tool_result", "tool_use_id": id}]})
        self.see("boundary")
        with self.came:
            messages = list(self.queued)
            self.queued.clear()
        for message in messages:
            lifecycle(message, "started")
            self.see("taken", message["message"]["content"])
        return messages


if __name__ == "__main__":
    if "--help" in sys.argv:
        print("--input-format --replay-user-messages")
    elif "--version" in sys.argv:
        print("2.1.330")
    else:
        Program().run()
