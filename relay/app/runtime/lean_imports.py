"""What a process that runs on leaves out of its imports."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from relay.base.gc_pause import held_back


def defer_models() -> None:
    """Let each pydantic model be put together when it is first used (pydantic, "Configuration", `defer_build`): MCP's
    SDK declares some hundreds, the operations a hundred, and few of them are used."""
    from pydantic import BaseModel

    BaseModel.model_config["defer_build"] = True


@contextmanager
def lean_imports() -> Iterator[None]:
    """For the imports of a start: no model is put together (`defer_models`), no search for cycles of garbage goes
    through what stays, and structlog does without rich, fifty modules for tracebacks in colour. Afterwards rich can
    be imported."""
    defer_models()
    hidden = "rich" not in sys.modules
    if hidden:
        sys.modules["rich"] = None  # type: ignore[assignment]  # the import system's word for "not there"
    try:
        with held_back():
            yield
    finally:
        if hidden:
            del sys.modules["rich"]
