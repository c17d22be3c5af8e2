"""What an installed program tells without a turn: its version, how it hears, whether one is signed in."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path

from relay.agents.setup.presets import Preset, Route
from relay.base.child_process import ChildProcess, Exit
from relay.base.terminal_text import safe_line
from relay.model import Availability

#: Seconds for a question to a program (`--version`, the state of its sign-in).
ASK_S = 20.0
#: Bytes of an answer that are kept, and of a program's help.
ANSWER_BYTES, HELP_BYTES = 4096, 65_536


async def ask(
    argv: list[str], *, env: Mapping[str, str], cwd: Path, most: int = ANSWER_BYTES
) -> tuple[Exit | None, str]:
    """Run a short question; its end (None when it took longer than `ASK_S`) and the first `most` bytes of output."""
    output = b""
    try:
        async with await ChildProcess.start(argv, env=env, cwd=cwd) as process:
            async with asyncio.timeout(ASK_S):
                async for _, data in process.output():
                    output = (output + data)[:most]
            return process.exit, output.decode("utf-8", "replace")
    except TimeoutError:
        return None, output.decode("utf-8", "replace")
    except OSError as error:
        return Exit(errno=error.errno or 1), ""


async def version_of(preset: Preset, path: str, *, env: Mapping[str, str], cwd: Path) -> Availability:
    """Does the program at `path` start, and which version is it?"""
    ended, output = await ask([path, "--version"], env=env, cwd=cwd)
    if ended is None or ended.code != 0:
        how = f"gave no answer within {ASK_S:g} s" if ended is None else str(ended)
        return Availability(False, f"`{preset.program} --version` {how}.", preset.install)
    version = re.search(r"\d+\.\d+\.\d+[\w.+-]*", output)
    return Availability(True, path, version=version[0] if version else safe_line(output, 80))


async def best_route(preset: Preset, path: str, *, env: Mapping[str, str], cwd: Path) -> Route | None:
    """The best way of hearing that this very program knows, by its own help."""
    if not preset.routes:
        return None
    _, known = await ask([path, "--help"], env=env, cwd=cwd, most=HELP_BYTES)
    return next((route for route in preset.routes if all(word in known for word in route.help)), None)


async def signed_in(preset: Preset, path: str, *, env: Mapping[str, str], cwd: Path) -> bool | None:
    """Is one signed in, as the program says, or with a key? None: it cannot tell."""
    if any(env.get(key) for key in preset.keys):
        return True
    if not preset.check:
        return None
    ended, output = await ask([path, *preset.check], env=env, cwd=cwd)
    if ended is not None and ended.code == 0:
        return True
    return False if ended is not None and re.search(r"not logged in", output, re.IGNORECASE) else None


async def signed_out(preset: Preset, path: str, *, env: Mapping[str, str], cwd: Path) -> str | None:
    """What the program says about a missing sign-in; None when it is signed in or cannot tell."""
    if await signed_in(preset, path, env=env, cwd=cwd) is not False:
        return None
    return f"`{preset.program} {' '.join(preset.check)}` says: Not logged in."
