"""The routes of messages' files (docs/entries.md).

Invariant: no file runs anything in a browser: what is no picture is a download of no type, and as a page it may do
nothing.
"""

from __future__ import annotations

from urllib.parse import quote

from aiohttp import web

from relay.app.entries.files import RoomFiles
from relay.config.settings import LiveSettings
from relay.faces.http.requests.errors import answer
from relay.faces.http.requests.parsing import Query, bad, read_bytes
from relay.faces.http.requests.reader import RequestReader, only_person
from relay.room.parsing import file_names as files


class FileRoutes:
    """The handlers."""

    def __init__(self, kept: RoomFiles, settings: LiveSettings, reader: RequestReader) -> None:
        self._kept, self._settings, self._reader = kept, settings, reader

    def table(self) -> list[web.RouteDef]:
        return [web.post("/api/files", self.add), web.get("/api/files/{file}", self.show)]

    async def add(self, request: web.Request) -> web.Response:
        """`?name=`, the body is the file -> 201 `{id, name, type, size, path, reference}`."""
        name = Query(request, "name").text("name")
        if not name:
            raise bad("name is missing.", "Ask with `?name=picture.png`, and send the file as the body.")
        only_person(request, "sends files", "Name the file's path in the message.")
        self._kept.check_size(name, request.content_length or 0)  # before it is read
        most, within_s = self._settings.current.room.max_file_bytes, self._reader.limits.body_s
        data = await read_bytes(request, most, within_s)
        return answer(await self._kept.add(name, data), status=201)

    async def show(self, request: web.Request) -> web.Response:
        """`?name=`: the file, a picture as one, all else as a download under this name."""
        name = files.clean_name(Query(request, "name").text("name") or "")
        data = await self._kept.read(request.match_info["file"])
        how = "inline" if files.picture(data) else "attachment"
        headers = {
            "Content-Type": files.type_of(data),
            "Content-Disposition": f"{how}; filename*=UTF-8''{quote(name, safe='')}",
            "Content-Security-Policy": "default-src 'none'; sandbox; frame-ancestors 'none'",
            "Cache-Control": "private, max-age=31536000, immutable",
        }
        return web.Response(body=data, headers=headers)
