"""Codex' trust in our hooks: it runs a hook only after its person has looked at it, or has told it to.

Codex itself is asked which hooks it sees and by which hash it trusts them, and writes them into its `config.toml`
(`hooks/list` and `config/batchWrite` of its app-server, docs/doors.md, section 3): no hash is computed here, and a
Codex that does not offer this is left to ask its person.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Any

import relay

#: Seconds for all that is asked of Codex: its start takes up to 3 s on a loaded machine.
ASKED_S = 20.0
#: Seconds that it has to end.
END_S = 5.0
_HEADER = re.compile(r"\s*\[{1,2}[^\[\]]*\]{1,2}\s*(#.*)?")


class CannotTrust(Exception):
    """Codex does not tell or take it; the message says why."""


async def untrusted(program: str, checkout: Path, hooks: Path) -> dict[str, str]:
    """The hash of each hook of this file that Codex does not trust, by the key it has there. Raises CannotTrust."""
    async with _app_server(program) as server:
        told = await server.ask("hooks/list", {"cwds": [str(checkout)]})
    found: dict[str, str] = {}
    for hook in _hooks(told):
        key = str(hook.get("key", ""))
        if key.startswith(f"{hooks}:") and hook.get("trustStatus") not in ("trusted", "managed"):
            found[key] = str(hook.get("currentHash", ""))
    return found


async def trust(program: str, hashes: dict[str, str]) -> None:
    """Let Codex note that its person trusts these. Raises CannotTrust."""
    value = {key: {"trusted_hash": hash} for key, hash in hashes.items()}
    edit = {"keyPath": "hooks.state", "value": value, "mergeStrategy": "upsert"}
    async with _app_server(program) as server:
        await server.ask("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})


def without_trust(text: str, keys: Collection[str]) -> str:
    """Codex' configuration without its trust in these hooks, which are the tables `[hooks.state."KEY"]`."""
    ours = {f"[hooks.state.{json.dumps(key, ensure_ascii=False)}]" for key in keys}
    kept: list[str] = []
    skipping = False
    for line in text.splitlines(keepends=True):
        if _HEADER.fullmatch(line.rstrip("\r\n")):
            skipping = line.strip() in ours
        if not skipping:
            kept.append(line)
    return "".join(kept)


def _hooks(told: Any) -> list[dict[str, Any]]:
    """Every hook in the answer, whichever way it groups them by folder."""
    if isinstance(told, dict):
        if "key" in told and "currentHash" in told:
            return [told]
        return [hook for value in told.values() for hook in _hooks(value)]
    return [hook for value in told for hook in _hooks(value)] if isinstance(told, list) else []


class _Server:
    """One `codex app-server`, which is asked one thing after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._last = 0

    async def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Raises CannotTrust."""
        self._last += 1
        self.tell({"id": self._last, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told.get("id") == self._last and "method" not in told:
                if "result" in told:
                    return told["result"]
                error = told.get("error") or {}
                raise CannotTrust(f"Codex refuses {method}: {error.get('message', 'no reason given')}")
        raise CannotTrust(f"Codex ended without an answer to {method}")

    def tell(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")


@contextlib.asynccontextmanager
async def _app_server(program: str) -> Any:
    """Raises CannotTrust also where it takes too long."""
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            "app-server",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=16 << 20,
            # npm's `codex` starts the program itself, which must end with it.
            start_new_session=True,
        )
    except OSError as error:
        raise CannotTrust(f"{program} cannot be started: {error.strerror}") from None
    server = _Server(process)
    try:
        async with asyncio.timeout(ASKED_S):
            client = {"name": "relay", "title": "relay", "version": relay.__version__}
            await server.ask("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
            server.tell({"method": "initialized"})
            yield server
    except TimeoutError:
        raise CannotTrust(f"Codex gave no answer within {ASKED_S:g} s") from None
    except (ConnectionError, OSError) as error:
        raise CannotTrust(f"Codex cannot be asked: {error}") from None
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """It ends with its input, which lets it finish what it writes; else by force, with all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
