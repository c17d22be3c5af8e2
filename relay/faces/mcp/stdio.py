"""The transport of `relay mcp`: one JSON-RPC message a line, on standard input and standard output.

Invariants:
- only JSON-RPC reaches the original standard output: after `claim`, descriptor 1 is standard error and descriptor 0
  is empty, for this process, its libraries and its child processes;
- a line that cannot be parsed is answered with an error, and the connection goes on; the length of a line is bounded;
- after the end of input, running requests have `GRACE_S` to be answered, so a script that pipes questions in gets its
  answers. A request that takes longer is cancelled.

The SDK's own `stdio_server` is not used. It reads in a thread that no signal ends, so a process that is told to stop
would wait for its client; it drops malformed lines silently; and the end of input cancels running requests.

Before `claim` only the standard library is imported: the descriptors must be safe before a library prints something.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import select
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

#: Longest line, in bytes: an entry of the room (4 MiB) still fits when every byte of it is escaped (\u0000).
MAX_LINE = 32 * 1024 * 1024
#: Seconds that running requests have after the end of input: less than the 2 s after which the SDK's client
#: terminates a server (mcp/client/stdio.py, PROCESS_TERMINATION_TIMEOUT).
GRACE_S = 1.5
_CHUNK = 65_536

#: JSON-RPC 2.0, section 5.1.
PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class Wire(NamedTuple):
    """The descriptors of the original standard input and output."""

    reading: int
    writing: int


def claim() -> Wire:
    """Take standard input and output for the protocol. Everything that is printed later goes to standard error."""
    sys.stdout.flush()
    wire = Wire(os.dup(0), os.dup(1))  # os.dup makes them not inheritable
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        os.dup2(2, 1)
    except OSError:  # started without standard error
        os.dup2(0, 1)
    return wire


async def serve(wire: Wire, run: Callable[[Any, Any], Coroutine[Any, Any, None]]) -> None:
    """Run a connection until its input ends. `run` takes the read stream and the write stream, as `Server.run` does.

    Cancelling it cancels the running requests. Returns when the input has ended or nobody reads the output.
    """
    import anyio

    inward: Any
    outward: Any
    inward, read_stream = anyio.create_memory_object_stream[Any](0)
    write_stream, outward = anyio.create_memory_object_stream[Any](0)
    under_way = _UnderWay()
    output = _Output(wire.writing)
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[_Line | None] = asyncio.Queue()
    room = threading.Semaphore(64)  # lines that were read and not yet handled; more of them wait in the pipe

    def hand_over(line: _Line | None) -> None:
        room.acquire()
        with contextlib.suppress(RuntimeError):  # the loop has ended; so does this thread with the process
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=_read, args=(wire.reading, hand_over), name="mcp-in", daemon=True).start()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(run(read_stream, write_stream))
        writing = tasks.create_task(_write(outward, output, under_way))
        reading = tasks.create_task(_feed(lines, room, inward, output, under_way))
        # When nobody reads our answers (writing ended) or the connection ended by itself, nothing is left to do.
        await asyncio.wait((running, writing, reading), return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            reading.cancel()
        await inward.aclose()
        await asyncio.wait((running,))
    output.close()


class _Line(NamedTuple):
    """A line of the input: its `message` when it is JSON-RPC, else the `refusal` that answers it."""

    message: Any = None
    refusal: dict[str, Any] | None = None


class _UnderWay:
    """The ids of the requests that were read and are not answered yet."""

    def __init__(self) -> None:
        self._ids: set[Any] = set()
        self.none = asyncio.Event()
        self.none.set()

    def asked(self, id: Any) -> None:
        self._ids.add(id)
        self.none.clear()

    def settled(self, id: Any) -> None:
        self._ids.discard(id)
        if not self._ids:
            self.none.set()


async def _feed(
    lines: asyncio.Queue[_Line | None],
    room: threading.Semaphore,
    inward: Any,
    output: _Output,
    under_way: _UnderWay,
) -> None:
    import anyio
    from mcp.shared.message import SessionMessage

    while (line := await lines.get()) is not None:
        room.release()
        if line.refusal is not None:
            try:
                await output.put(json.dumps(line.refusal).encode())
            except OSError:
                return
            continue
        message = line.message
        id, method = getattr(message, "id", None), getattr(message, "method", None)
        if id is not None and method is not None:
            under_way.asked(id)
        elif method == "notifications/cancelled":
            cancelled = (message.params or {}).get("requestId")
            if isinstance(cancelled, str | int):  # anything else names no request
                under_way.settled(cancelled)
        try:
            await inward.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(GRACE_S):
            await under_way.none.wait()


async def _write(outward: Any, output: _Output, under_way: _UnderWay) -> None:
    async with outward:
        async for sent in outward:
            message = sent.message
            try:
                await output.put(encode(message))
            except OSError:
                return
            if getattr(message, "method", None) is None:
                under_way.settled(getattr(message, "id", None))


def encode(message: Any) -> bytes:
    """A JSON-RPC message as UTF-8, without a line end."""
    try:
        text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    except ValueError:
        # A lone surrogate is possible in JSON and not in UTF-8; the answer is sent all the same.
        text = json.dumps(
            message.model_dump(by_alias=True, exclude_unset=True), ensure_ascii=False, default=str
        )
    return text.encode("utf-8", "replace")


def _read(reading: int, hand_over: Callable[[_Line | None], None]) -> None:
    """The reading thread: hands over each line, parsed and of bounded length, and None at the end."""
    from mcp_types import jsonrpc_message_adapter

    def parsed(line: bytes) -> _Line:
        try:
            return _Line(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return _Line(refusal=_refusal(line))

    parts: list[bytes] = []
    size = 0
    too_long = False
    while True:
        try:
            chunk = os.read(reading, _CHUNK)
        except OSError:
            chunk = b""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            line = b"".join((*parts, piece))
            parts, size = [], 0
            if too_long or len(line) > MAX_LINE:
                too_long = False
                hand_over(
                    _Line(refusal=error_line(INVALID_REQUEST, f"A message has {MAX_LINE} bytes at most."))
                )
            elif line.strip():
                hand_over(parsed(line))
        if not chunk:
            if parts:
                hand_over(parsed(b"".join(parts)))  # the last line may lack its end
            hand_over(None)
            return
        if rest:
            parts.append(rest)
            size += len(rest)
        if size > MAX_LINE:
            parts, size, too_long = [], 0, True


def _refusal(line: bytes) -> dict[str, Any]:
    """The answer to a line that is no message of JSON-RPC 2.0."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return error_line(PARSE_ERROR, "The line is not JSON.")
    id = message.get("id") if isinstance(message, dict) else None
    known = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    return error_line(
        INVALID_REQUEST, "The line is not a message of JSON-RPC 2.0 (batches are not accepted).", known
    )


def error_line(code: int, message: str, id: str | int | None = None) -> dict[str, Any]:
    """An error of JSON-RPC; `id` is None where the request's is not known."""
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}


class _Output:
    """Writes lines to the client: a short one at once while there is room for it, and else in a thread, so that a
    client that does not read blocks nobody else."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self._room = select.poll()
        self._room.register(writing, select.POLLOUT)
        # Lines that the thread has not written yet: none overtakes another.
        self._in_thread = 0
        self._lines: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="mcp-out", daemon=True)
        self._thread.start()

    async def put(self, line: bytes) -> None:
        """Write a line. Raises OSError when nobody reads."""
        left = line + b"\n"
        # A pipe that is ready takes so many bytes without a wait (pipe(7), "PIPE_BUF"), and a socket takes more.
        if len(left) <= select.PIPE_BUF and not self._in_thread and self._room.poll(0):
            left = left[os.write(self._writing, left) :]
        if not left:
            return
        done: asyncio.Future[None] = self._loop.create_future()
        self._in_thread += 1
        self._lines.put((left, done))
        await done

    def close(self) -> None:
        self._lines.put(None)

    def _run(self) -> None:
        while (item := self._lines.get()) is not None:
            line, done = item
            error: OSError | None = None
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._writing, left) :]
            except OSError as failed:
                error = failed
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._settle, done, error)

    def _settle(self, done: asyncio.Future[None], error: OSError | None) -> None:
        self._in_thread -= 1
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
