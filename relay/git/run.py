"""Every call of git that relay makes.

Invariant: a call runs nothing but git itself. It has an environment of its own (no system or user
configuration, no pager, no prompt, no transport), an argument list, a limit of time and of output, and a
process group that is ended with it. What a repository's own configuration could still set off is overridden
here (hooks, fsmonitor, signing), and what cannot be overridden (clean and smudge filters, merge and diff
drivers) is never read: whatever touches content runs in a git directory of relay's own (`scratch_repository.py`).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from relay.base.terminal_text import flat
from relay.git.environment import ENVIRONMENT, OVERRIDES

#: Seconds for one call; one that fills a worktree gets `LONG_S`.
TIMEOUT_S = 60.0
LONG_S = 900.0
#: Bytes of output that one call may give: the raw differences of some 100,000 files.
MOST_OUTPUT = 64 * 1_048_576
#: Bytes kept of standard error.
MOST_STDERR = 16_384


class GitError(Exception):
    """git could not do it; the message is git's own last words."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        super().__init__(f"git {command}: {stderr or f'exit code {code}'}")
        self.command, self.code, self.stderr = command, code, stderr

    @property
    def last_words(self) -> str:
        """What git says is wrong, in one line that may stand in a sentence."""
        lines = [flat(line) for line in self.stderr.splitlines() if not line.startswith("hint:")]
        wrong = [line for line in lines if line.startswith(("fatal: ", "error: "))]
        said = next((line for line in reversed(wrong or lines) if line), f"git {self.command} failed")
        return said.removeprefix("fatal: ").removeprefix("error: ").rstrip(".:")


class GitMissing(GitError):
    """There is no git on this machine."""

    def __init__(self) -> None:
        super().__init__("", 127, "the program is not on the PATH; install git")


@dataclass(frozen=True, slots=True)
class GitResult:
    """The end of one call."""

    code: int
    out: bytes
    stderr: str

    @property
    def text(self) -> str:
        return name_of(self.out).rstrip("\n")


def name_of(data: bytes) -> str:
    """A path or a line of git's as text; what is not UTF-8 is shown, and stays different from anything else."""
    return data.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Git:
    """git in `folder`. `env` and `config` come on top of what every call has; None takes a variable away."""

    folder: Path
    env: Mapping[str, str | None] = field(default_factory=dict)
    config: tuple[str, ...] = ()

    def at(self, folder: Path) -> Git:
        return replace(self, folder=folder)

    async def run(
        self,
        *args: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        timeout_s: float = TIMEOUT_S,
        most: int = MOST_OUTPUT,
        sink: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> GitResult:
        """Run `git ARGS`. `sink`: what the output goes to piece by piece, whatever its size. Raises GitError for an
        exit code that is not in `ok`, for too much output and for too long a time; GitMissing."""
        words = ["git", "--no-pager"]
        for setting in (*OVERRIDES, *self.config):
            words += ["-c", setting]
        variables = {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT, **self.env}
        env = {name: value for name, value in variables.items() if value is not None}
        done = await _run([*words, *args], self.folder, env, stdin, timeout_s, most, args[0], sink)
        if done.code not in ok:
            raise GitError(args[0], done.code, done.stderr)
        return done

    async def line(self, *args: str) -> str:
        """What one call prints, without its line end."""
        return (await self.run(*args)).text

    async def maybe(self, *args: str) -> str | None:
        """What one call prints; None when it fails or prints nothing."""
        with suppress(GitError):
            return (await self.run(*args)).text or None
        return None

    async def blobs(self, ids: Iterable[str], *, most: int) -> dict[str, bytes]:
        """The contents of these objects by id, `most` bytes in all; one that is not there is left out."""
        wanted = "".join(f"{id}\n" for id in dict.fromkeys(ids)).encode()
        if not wanted:
            return {}
        done = await self.run("cat-file", "--batch", stdin=wanted, most=most)
        return await asyncio.to_thread(_contents, done.out)


def _contents(batch: bytes) -> dict[str, bytes]:
    """`git cat-file --batch`: `ID TYPE SIZE\\n`, the content, a line end; or `ID missing\\n`, as of a submodule."""
    contents, at = {}, 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        id, *about = batch[at:end].decode("ascii").split(" ")
        at = end + 1
        if len(about) == 2:
            contents[id] = batch[at : at + int(about[1])]
            at += len(contents[id]) + 1
    return contents


async def _run(
    argv: list[str],
    folder: Path,
    env: dict[str, str],
    stdin: bytes,
    timeout_s: float,
    most: int,
    name: str,
    sink: Callable[[bytes], Awaitable[None]] | None,
) -> GitResult:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # asyncio would end git alone, and wait for whatever git has started by then.
        with suppress(OSError):
            await _end(await starting)
        raise
    except FileNotFoundError as error:
        # The folder's own absence raises the same, with its name.
        if Path(folder).is_dir():
            raise GitMissing from error
        raise GitError(name, 128, f"there is no folder {folder}") from error
    except OSError as error:
        raise GitError(name, 128, f"it cannot be run in {folder}: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout_s):
            out, err, _ = await asyncio.gather(
                _read(process.stdout, most, name, sink),
                _tail(process.stderr),
                _feed(process.stdin, stdin),
            )
            code = await process.wait()
    except TimeoutError:
        raise GitError(name, -1, f"timed out after {timeout_s:g} s") from None
    finally:
        await _end(process)
    return GitResult(code, out, name_of(err).strip())


async def _read(
    stream: asyncio.StreamReader | None,
    most: int,
    name: str,
    sink: Callable[[bytes], Awaitable[None]] | None,
) -> bytes:
    assert stream is not None
    got = bytearray()
    while chunk := await stream.read(262_144):
        if sink is not None:
            await sink(chunk)
            continue
        got += chunk
        if len(got) > most:
            raise GitError(name, -1, f"more than {most:,} bytes of output")
    return bytes(got)


async def _tail(stream: asyncio.StreamReader | None) -> bytes:
    assert stream is not None
    got = b""
    while chunk := await stream.read(65_536):
        got = (got + chunk)[-MOST_STDERR:]
    return got


async def _feed(stream: asyncio.StreamWriter | None, data: bytes) -> None:
    assert stream is not None
    # A call that ends without reading all says why by its exit code.
    with suppress(BrokenPipeError, ConnectionResetError):
        for start in range(0, len(data), 262_144):
            stream.write(data[start : start + 262_144])
            await stream.drain()
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.close()
        await stream.wait_closed()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End what is left of the group, and wait for git itself."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())
