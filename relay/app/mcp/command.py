"""`relay mcp`: the room's tools for one agent, over standard input and output.

Invariants:
- standard output carries JSON-RPC only, from the first line of `main` on;
- the process needs no daemon: it opens the room's database itself, makes and migrates it when it is missing; only
  where nobody told it the address of a PostgreSQL database it asks the running room, with its key (daemon_proxy.py);
- a session of its own ends with it, and gives back what it held; a given one (RELAY_SESSION_ID) outlives it;
- what takes its time is loaded once the descriptors are safe, the SDK and the database side by side.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import sys
from functools import partial
from types import ModuleType
from typing import Any

from relay.config.locate import add_config_option


def main(words: list[str]) -> int:
    """The command; gives its exit code."""
    if words[:1] == ["install"]:
        from relay.app.mcp.install import main as install

        return install(words[1:])
    from relay.app.runtime.lean_imports import defer_models
    from relay.faces.mcp import stdio

    options = _parser().parse_args(words)  # before the claim: --help belongs on standard output
    wire = stdio.claim()
    _lean()
    defer_models()
    gc.disable()  # what is imported stays: to look through it again and again takes a tenth of the start
    from relay.app.mcp.stdio_server import run

    code = run(wire, config=options.config, agent=options.agent)
    sys.stderr.flush()
    # The threads of the wire may wait for a client that neither reads nor goes; nothing is left to be done.
    os._exit(code)


def _lean() -> None:
    """Leave out of the start what no server on standard input and output wants.

    The packages `mcp` and `mcp.server` load the SDK's client, its other server and an HTTP library when they are
    entered, and structlog loads rich where it is there: some tenth of the start. Here their own code runs when
    somebody first asks for a name of theirs; their parts, which relay names in full, are what they are.
    """
    sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # the import system's word for "not there"
    for name in ("mcp", "mcp.server"):
        spec = importlib.util.find_spec(name)
        if name in sys.modules or spec is None:
            return
        made = sys.modules[name] = importlib.util.module_from_spec(spec)
        made.__getattr__ = partial(_run, made)  # type: ignore[method-assign]  # PEP 562
        parent, _, own = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], own, made)


def _run(package: ModuleType, name: str) -> Any:
    """Run a package's own code, and give the name that was asked for."""
    spec = package.__spec__
    if name.startswith("__") or spec is None or spec.loader is None:
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")
    del package.__getattr__
    spec.loader.exec_module(package)
    return getattr(package, name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay mcp",
        usage="relay mcp [-h] [--config CONFIG] [--agent NAME]\n       relay mcp install [-h] [PROGRAM ...]",
        description="The room's tools for an agent, over standard input and output (Model Context Protocol). "
        "`relay mcp install` writes it into the configuration of Claude Code, Codex and Gemini CLI.",
    )
    add_config_option(parser)
    parser.add_argument("--agent", metavar="NAME", help="who asks, without RELAY_API_KEY and RELAY_AGENT_ID")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
