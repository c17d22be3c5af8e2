"""One request to a place outside, and what its answer means.

Invariants: no redirection is followed, a request ends after `REQUEST_S`, and of an answer the first bytes are read;
no address and no secret is in what this says.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from relay.app.notify.places import Place
from relay.base.terminal_text import safe_line

#: Seconds of one request, bytes of an answer that are read, and characters of it that are shown.
REQUEST_S, MOST_BYTES, MOST_SAID = 15.0, 4096, 200
#: Seconds that a place may ask to be left alone at most.
MOST_AFTER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `status`: None = no answer came. `said`: in words, what a person is told. `passes`: it may go
    by itself, so it is tried again, in `after_s` seconds at the earliest."""

    status: int | None
    said: str
    passes: bool = False
    after_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=REQUEST_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
    )


async def post(
    http: aiohttp.ClientSession, place: Place, url: str, body: bytes, headers: Mapping[str, str]
) -> Answer:
    """Post it once. Never raises for what the other side or the network does."""
    try:
        async with http.post(url, data=body, headers=headers, allow_redirects=False) as reply:
            return _answer(place, reply, await _beginning(reply))
    except TimeoutError:
        return Answer(None, f"no answer within {REQUEST_S:g} s", passes=True)
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientSSLError, ssl.SSLError):
        return Answer(None, f"{place.host} has no certificate that is trusted here", passes=True)
    except aiohttp.ClientConnectorError as error:
        why = error.os_error.strerror or type(error.os_error).__name__
        return Answer(None, f"{place.host} cannot be reached: {safe_line(why)}", passes=True)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Not the error's own words, which may have the address in them.
        return Answer(
            None, f"{place.host} gave no answer that can be read ({type(error).__name__})", passes=True
        )


async def _beginning(reply: aiohttp.ClientResponse) -> str:
    read = b""
    try:
        async for piece in reply.content.iter_chunked(MOST_BYTES):
            read += piece
            if len(read) >= MOST_BYTES:
                break
    except (TimeoutError, aiohttp.ClientError):
        pass  # its status is what counts
    if not reply.content.at_eof():
        reply.close()  # whatever else it sends is not waited for
    return read[:MOST_BYTES].decode("utf-8", "replace")


def _answer(place: Place, reply: aiohttp.ClientResponse, text: str) -> Answer:
    status = reply.status
    words = safe_line(place.clean(text), MOST_SAID)
    said = f"HTTP {status}" + (f": {words}" if words else "")
    if 300 <= status < 400:
        to = urlsplit(reply.headers.get("Location", "")).hostname or place.host
        said = f"HTTP {status}: it redirects to {safe_line(to, 80)}, which is not followed; give that address"
        return Answer(status, said)
    passes = status in (408, 429) or status >= 500
    return Answer(status, said, passes, retry_after(reply.headers.get("Retry-After", ""), time.time()))


def retry_after(text: str, now: float) -> float:
    """Seconds that `Retry-After` asks for, as a number or a date; 0 = it says nothing that can be read. Pure."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), MOST_AFTER_S)
    try:
        at = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return min(max(0.0, at - now), MOST_AFTER_S)
