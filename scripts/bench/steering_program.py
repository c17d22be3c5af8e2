"""A stand-in for `claude -p --input-format stream-json` with a model that calls a tool every few seconds.

It speaks the part of the protocol that relay uses (docs/doors.md, section 1), started by `scripts.bench.steering`
under the name `claude`. BENCH_TOOL_S: seconds of a tool; BENCH_TOOLS: how many a turn has; BENCH_SEEN: a file to
which it appends one JSON a line, `{at, what: prompt|boundary|taken|late, text}`. With BENCH_TOOL_S of 0 a tool takes
a random time of up to 100 ms.
"""

import json
import os
import random
import sys
import threading
import time
import uuid
from collections import deque

TOOL_S, TOOLS = float(os.environ["BENCH_TOOL_S"]), int(os.environ["BENCH_TOOLS"])
SEEN = open(os.environ["BENCH_SEEN"], "a", buffering=1)  # noqa: SIM115, PTH123
queued: deque[dict] = deque()
came = threading.Condition()
ended = threading.Event()


def put(**event: object) -> None:
    print(json.dumps(event), flush=True)


def see(what: str, text: str = "") -> None:
    SEEN.write(json.dumps({"at": time.time(), "what": what, "text": text}) + "\n")


def lifecycle(message: dict, state: str) -> None:
    put(type="command_lifecycle", command_uuid=message["uuid"], state=state, session_id="s")


def read() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            put(type="control_response", response=response)
        elif message["type"] == "user":
            with came:
                queued.append(message)
                lifecycle(message, "queued")
                came.notify()
    with came:
        ended.set()
        came.notify()


def taken() -> list[dict]:
    with came:
        messages = list(queued)
        queued.clear()
    for message in messages:
        lifecycle(message, "started")
    return messages


def turn(first: dict, what: str) -> None:
    see(what, first["message"]["content"])
    lifecycle(first, "started")
    put(type="system", subtype="init", session_id="s", capabilities=["msg_lifecycle_v1"])
    under_way = [first]
    for number in range(TOOLS if what == "prompt" else 0):
        call = {"type": "tool_use", "id": f"t{number}", "name": "Bash", "input": {"command": "make test"}}
        put(type="assistant", message={"id": str(uuid.uuid4()), "content": [call]})
        time.sleep(TOOL_S or random.random() / 10)
        put(type="user", message={"content": [{"type": "tool_result", "tool_use_id": f"t{number}"}]})
        see("boundary")
        for message in taken():
            see("taken", message["message"]["content"])
            under_way.append(message)
    answer = {"type": "text", "text": "done"}
    put(type="assistant", message={"id": str(uuid.uuid4()), "content": [answer]})
    usage = {"input_tokens": 1, "output_tokens": 1}
    uuids = [message["uuid"] for message in under_way]
    put(type="result", is_error=False, result="done", session_id="s", usage=usage, user_message_uuids=uuids)
    for message in under_way:
        lifecycle(message, "completed")


if "--help" in sys.argv:
    print("--input-format --replay-user-messages")
elif "--version" in sys.argv:
    print("2.1.330")
else:
    threading.Thread(target=read, daemon=True).start()
    what = "prompt"
    while True:
        with came:
            came.wait_for(lambda: queued or ended.is_set())
            if not queued:
                break
            message = queued.popleft()
        turn(message, what)
        what = "late"
