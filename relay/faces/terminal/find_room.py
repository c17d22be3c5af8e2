"""Where a client finds the room: its address, its key, and the transcript for when the room does not run.

Invariant: it is read anew for every attempt to connect, so a daemon that came back on another port or with another
token is found. The daemon's own `.relay/state.json` goes before the configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from relay.base.files import read_regular
from relay.config.command_line import script
from relay.config.locate import find
from relay.model import RESERVED_NAMES
from relay.room.parsing import line_format
from relay.room.parsing.file_names import FOLDER


class PlaceError(Exception):
    """The room cannot be found; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """`url` has no slash at its end; `key` is "" when none was found.

    `transcript` and `lock` are None when only the URL is known: nothing can be written to the transcript then.
    `reserved` are the names that the room would refuse, as far as known here. `start` is the command that starts the
    room, in backquotes; "" when only the URL is known. `repo` is the room's codebase, None when that is not known.
    """

    url: str
    key: str
    transcript: Path | None = None
    lock: Path | None = None
    reserved: frozenset[str] = RESERVED_NAMES
    start: str = ""
    repo: Path | None = None

    @property
    def files(self) -> str:
        """The folder of the files that messages name; "" when it is not known."""
        return "" if self.lock is None else str(self.lock.parent / FOLDER)

    @property
    def own_name(self) -> Path | None:
        """The file that keeps who a person was here at their last visit."""
        return None if self.lock is None else self.lock.parent / "join_name"

    @property
    def history(self) -> Path | None:
        """The file that keeps a person's input lines between visits."""
        return None if self.lock is None else self.lock.parent / "join_history"


class Finder:
    """Finds the room by `--url` or by `--config`; call `place()` before each attempt."""

    def __init__(self, config: str | None, url: str | None, environ: Mapping[str, str] | None = None) -> None:
        self._config, self._url = config, url
        self._environ = os.environ if environ is None else environ
        self._local: tuple[Place, Path] | None = None

    def place(self) -> Place:
        """The room as it is now. Reads two small files; raises PlaceError."""
        key = self._environ.get("RELAY_API_KEY", "").strip()
        if self._url is not None:
            return Place(_checked(self._url), key)
        place, runtime = self._from_config()
        return replace(place, url=running_at(runtime) or place.url, key=key or _token(runtime))

    def _from_config(self) -> tuple[Place, Path]:
        """The room as the configuration has it, and the folder of its daemon's files."""
        if self._local is None:
            from relay.config import loading  # not needed with --url

            try:
                settings = loading.load(find(self._config, self._environ))
            except loading.ConfigError as error:
                raise PlaceError(str(error)) from None
            host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(
                settings.ui.host, settings.ui.host
            )
            url = f"http://{f'[{host}]' if ':' in host else host}:{settings.ui.port}"
            runtime, transcript = settings.runtime_dir, settings.transcript_path
            names = RESERVED_NAMES.union(settings.agent_names)
            start = script("scripts/start.sh", find(self._config, self._environ))
            lock = line_format.lock_path(runtime, transcript)
            self._local = Place(url, "", transcript, lock, names, start, settings.repo), runtime
        return self._local


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise PlaceError(f"{url!r} is not the address of a room; give --url http://HOST:PORT")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def running_at(runtime: Path) -> str | None:
    """The address in the daemon's state.json; None when there is no usable one."""
    with suppress(OSError, ValueError):
        state = json.loads(read_regular(runtime / "state.json"))
        if isinstance(state, dict) and isinstance(state.get("url"), str):
            with suppress(PlaceError):
                return _checked(state["url"])
    return None


def _token(runtime: Path) -> str:
    with suppress(OSError, ValueError):
        return read_regular(runtime / "token").decode().strip()
    return ""
