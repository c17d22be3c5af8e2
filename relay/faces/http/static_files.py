"""The page's files: what the builder put into `relay/faces/static`.

Invariants: only files that a look into the folder found are served, so no path leads out of it; files whose
name holds a digest of their content are kept by browsers for ever, the others are asked for each time. The builder
left each file compressed beside it (`NAME.br`, `NAME.gz`): `FileResponse` sends what the browser takes of these.
"""

from __future__ import annotations

import html
import time
from pathlib import Path

from aiohttp import web

from relay.config.command_line import command, script
from relay.faces.http.requests.middleware import OF_A_PAGE
from relay.model import Fault, Refusal

_NOT_BUILT = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>relay</title>
<h1>The page is not built yet</h1>
<p>The room itself runs. To build its page: <code>{setup}</code>, then load this again.</p>
<p>In the terminal: <code>{join}</code>.</p>
</html>
"""
#: Seconds between two looks for files that are not there: anybody may ask for such.
LOOK_AGAIN_S = 1.0
_COMPRESSED = (".br", ".gz")
_FOR_EVER = "public, max-age=31536000, immutable"


class PageFiles:
    """The files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, Path] = {}
        self._looked_at = 0.0
        self._look()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        self._found = {
            file.relative_to(self._folder).as_posix(): file
            for file in self._folder.rglob("*")
            if file.is_file() and not file.is_symlink() and file.suffix not in _COMPRESSED
        }

    def top_level(self) -> list[str]:
        """The names of the files beside index.html."""
        return sorted(name for name in self._found if "/" not in name and name != "index.html")

    def _file(self, name: str) -> Path | None:
        file = self._found.get(name)
        if (file is None or not file.is_file()) and time.monotonic() - self._looked_at > LOOK_AGAIN_S:
            self._look()  # built, or built anew, since
            file = self._found.get(name)
        return file

    async def index(self, _request: web.Request) -> web.StreamResponse:
        """`GET /`"""
        file = self._file("index.html")
        if file is None:
            typed = {"setup": script("scripts/setup.sh"), "join": command("join")}
            values = {name: html.escape(words.strip("`")) for name, words in typed.items()}
            return web.Response(text=_NOT_BUILT.format_map(values), content_type="text/html", status=503)
        return web.FileResponse(file, headers={"Cache-Control": "no-cache", **OF_A_PAGE})

    async def asset(self, request: web.Request) -> web.StreamResponse:
        """`GET /assets/NAME`: named by their content."""
        return self._response(f"assets/{request.match_info['name']}", _FOR_EVER)

    async def other(self, request: web.Request) -> web.StreamResponse:
        """`GET /NAME` for a file beside index.html."""
        return self._response(request.path.removeprefix("/"), "no-cache")

    def _response(self, name: str, cache: str) -> web.FileResponse:
        file = self._file(name)
        if file is None:
            raise Refusal("The page has no such file.", "Reload the page.", Fault.UNKNOWN)
        return web.FileResponse(file, headers={"Cache-Control": cache})
