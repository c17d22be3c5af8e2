"""The daemon's log: JSON lines in `.relay/relay.log`, rotated; readable ones on the terminal.

Invariant: every line has a time, a level and what it is about; no line carries a secret; nothing that reaches a
terminal steers it (what is no text is shown by its repr, which escapes).
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import structlog
from structlog.typing import Processor

from relay.base.terminal_text import safe

ROTATE_BYTES = 10 * 1024 * 1024
KEEP = 5


class _PrivateFile(logging.handlers.RotatingFileHandler):
    """Each file that it begins is its owner's alone; the folder is that, too."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        Path(self.baseFilename).chmod(0o600)
        return stream


def configure(path: Path, *, readable: bool) -> None:
    """Log to the file at `path`, and to standard error as well when `readable`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    to_file = _PrivateFile(path, maxBytes=ROTATE_BYTES, backupCount=KEEP, encoding="utf-8")
    as_json = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    to_file.setFormatter(_formatter(shared, structlog.processors.format_exc_info, as_json))
    handlers: list[logging.Handler] = [to_file]
    if readable:
        to_terminal = logging.StreamHandler(sys.stderr)
        coloured = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=_plain_traceback
        )
        to_terminal.setFormatter(_formatter(shared, _plain, coloured))
        handlers.append(to_terminal)
    logging.basicConfig(level="INFO", handlers=handlers, force=True)
    for noisy in ("aiohttp.access", "watchfiles", "httpx", "httpcore", "mcp", "aiosqlite", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def _formatter(shared: Sequence[Processor], *own: Processor) -> logging.Formatter:
    """`shared` is for lines that other packages log."""
    processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *own]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=processors)


def _plain(_logger: object, _name: str, entry: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: safe(value) if isinstance(value, str) else value for key, value in entry.items()}


def _plain_traceback(out: TextIO, error: structlog.typing.ExcInfo) -> None:
    out.write("\n" + safe("".join(traceback.format_exception(*error))).rstrip())
