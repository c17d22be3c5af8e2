"""Asks GitHub's REST API.

Invariants:
- a call ends: what passes by itself (no connection, 5xx, a rate limit) is tried again a few times, and not for long.
  A call that must not be done twice is not tried again once it may have been done;
- what fails is a `GithubError` that says what is missing and what helps; no token is in it, nor in a log line;
- whatever GitHub sends, memory is bounded: of a log the first and the last bytes are kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urljoin

import aiohttp
import gidgethub
from gidgethub import sansio
from gidgethub.aiohttp import GitHubAPI

from relay.checks.bounded_output import BoundedOutput
from relay.config.verification import GithubSettings
from relay.verification.github.errors import GithubError

T = TypeVar("T")
Json = dict[str, Any]
#: Who asks, as GitHub wants to know.
REQUESTER = "relay"
VERSION = {"X-GitHub-Api-Version": "2022-11-28"}
#: Seconds between two tries of a call, and the most that is waited because GitHub asks for it.
PAUSES_S = (1.0, 4.0, 10.0)
MOST_PAUSE_S = 60.0
#: Seconds of one request, and of one log.
REQUEST_S, LOG_S = 30.0, 120.0
#: Entries of a list that are read at most, and bytes of a log.
MOST_LISTED = 5000
MOST_LOG = 100 * 1024 * 1024
_REPO = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")


class Github:
    """The API, with the token of the environment. `settings`: as they are now; `pauses`: seconds between two
    tries."""

    def __init__(
        self,
        settings: Callable[[], GithubSettings],
        environ: Mapping[str, str] | None = None,
        *,
        pauses: Sequence[float] = PAUSES_S,
    ) -> None:
        self.settings, self._pauses = settings, tuple(pauses)
        self._environ = os.environ if environ is None else environ
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    @property
    def missing(self) -> str:
        """Why GitHub cannot be asked; empty: it can."""
        now = self.settings()
        if now.repo is None:
            return "verification.github.repo is not set: the repository's name on GitHub, as `owner/name`"
        if not _REPO.fullmatch(now.repo):
            return f"verification.github.repo is {now.repo[:100]!r}, and not `owner/name`"
        if not self._token:
            return f"{now.token_env} is not set in the environment of the room: a token of GitHub's"
        return ""

    @property
    def repo(self) -> str:
        """`owner/name`. Raises GithubError, as every call does where something is missing."""
        if missing := self.missing:
            raise GithubError(missing)
        return str(self.settings().repo)

    async def get(self, path: str) -> Json:
        """One thing of the repository: `path` goes on behind `/repos/owner/name/`. Raises GithubError."""

        async def one(api: GitHubAPI, url: str) -> Json:
            return _object(await api.getitem(url, extra_headers=dict(VERSION)))

        return await self._call(one, path)

    async def list(self, path: str, key: str | None = None, most: int = MOST_LISTED) -> list[Json]:
        """A list, page by page up to `most`; `key`: where it stands in the answer. Raises GithubError."""

        async def pages(api: GitHubAPI, url: str) -> list[Json]:
            found: list[Json] = []
            async for each in api.getiter(url, extra_headers=dict(VERSION), iterable_key=key):
                found.append(_object(each))
                if len(found) >= most:
                    break
            return found

        return await self._call(pages, path)

    async def post(self, path: str, data: Any = b"", *, once: bool = False) -> Any:
        """`once`: it is not tried again where it may have been done. Raises GithubError."""
        return await self._call(
            lambda api, url: api.post(url, data=data, extra_headers=dict(VERSION)), path, once=once
        )

    async def read_log(self, path: str, into: LogLines) -> None:
        """The log behind a redirection to its storage, which gets no token. Raises GithubError."""

        async def read(api: GitHubAPI, url: str) -> None:
            full = sansio.format_url(url, {}, base_url=api.base_url)
            headers = sansio.create_headers(REQUESTER, oauth_token=api.oauth_token) | VERSION
            async with self._open().get(full, headers=headers, allow_redirects=False) as answer:
                place = answer.headers.get("Location")
                if place is None:
                    body = await answer.content.read(64_000)
                    sansio.decipher_response(answer.status, answer.headers, body)
                    raise ValueError("it names no place of the log")
            limit = aiohttp.ClientTimeout(total=LOG_S)
            async with self._open().get(urljoin(full, place), timeout=limit) as answer:
                if answer.status != 200:
                    raise GithubError(f"the storage of logs answers {answer.status}", answer.status)
                async for data in answer.content.iter_any():
                    into.add(data)
                    if into.count > MOST_LOG:
                        break

        try:
            await self._call(read, path, once=True)
        finally:
            into.close()

    # -- one call

    @property
    def _token(self) -> str:
        return self._environ.get(self.settings().token_env, "").strip()

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=REQUEST_S))
        return self._session

    async def _call(
        self, do: Callable[[GitHubAPI, str], Awaitable[T]], path: str, *, once: bool = False
    ) -> T:
        url = f"/repos/{self.repo}/{path}"
        pauses = iter(self._pauses)
        while True:
            api = GitHubAPI(self._open(), REQUESTER, oauth_token=self._token, base_url=self.settings().api)
            try:
                return await do(api, url)
            except (gidgethub.GitHubException, aiohttp.ClientError, TimeoutError, OSError) as error:
                failure = self._failure(error, url)
            except (KeyError, ValueError) as error:
                failure = GithubError(f"GitHub's answer to {url} cannot be read: {error}", passes=True)
            pause = next(pauses, None)
            done_perhaps = once and failure.status not in (403, 429)
            if pause is None or not failure.passes or done_perhaps or failure.after_s > MOST_PAUSE_S:
                raise failure
            await asyncio.sleep(failure.after_s or pause)

    def _failure(self, error: Exception, url: str) -> GithubError:
        """What an error means, and what helps. Pure, but for the clock."""
        now = self.settings()
        where = now.api.partition("://")[2] or now.api
        if not isinstance(error, gidgethub.HTTPException):
            why = "it did not answer in time" if isinstance(error, TimeoutError) else str(error)
            return GithubError(
                f"GitHub ({where}) cannot be reached: {why or type(error).__name__}", passes=True
            )
        status, said = int(error.status_code), str(error)[:300]
        if status in (403, 429) and (wait := _limited(error, status)) is not None:
            until = datetime.fromtimestamp(time.time() + wait, UTC).strftime("%H:%M:%S UTC")
            message = f"GitHub's rate limit for this token is used up until {until} ({said})"
            return GithubError(message, status, passes=True, after_s=wait)
        match status:
            case 401:
                message = f"GitHub refuses the token in {now.token_env} ({said}): make a new one"
            case 403:
                message = (
                    f"the token in {now.token_env} may not do this ({said}): it needs Actions, Contents, Pull "
                    f"requests and Commit statuses of {now.repo}"
                )
            case 404:
                message = f"GitHub has no {url}, or the token in {now.token_env} does not see it"
            case _ if status >= 500:
                message = f"GitHub ({where}) answers {status} ({said})"
            case _:
                message = f"GitHub answers {status}: {said}"
        return GithubError(message, status, passes=status >= 500)


def _object(value: Any) -> Json:
    if not isinstance(value, dict):
        raise ValueError("it is no object")
    return value


def _limited(error: gidgethub.HTTPException, status: int) -> float | None:
    """Seconds until a rate limit is over; None: it is no rate limit."""
    headers = error.headers
    if (after := headers.get("retry-after", "")).isdecimal():
        return float(after)
    if headers.get("x-ratelimit-remaining") == "0":
        reset = headers.get("x-ratelimit-reset", "")
        return max(1.0, float(reset) - time.time()) if reset.isdecimal() else MOST_PAUSE_S
    # GitHub asks for a minute at least where it does not say how long.
    return MOST_PAUSE_S if status == 429 or "secondary rate limit" in str(error).lower() else None


class LogLines:
    """The lines of logs, without the time in front of each. What a log has behind its last error, where it has any,
    is left out: GitHub tidies up there, and that is no part of what failed."""

    def __init__(self, output: BoundedOutput) -> None:
        self._output = output
        self._rest, self._later, self._erred = b"", bytearray(), False
        self.count = 0

    def add(self, data: bytes) -> None:
        self.count += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._line(line)
        # A line without an end is shown in pieces.
        if len(self._rest) > 64_000:
            self._line(self._rest)
            self._rest = b""

    def close(self) -> None:
        """A log is over; another may follow."""
        if self._rest:
            self._line(self._rest)
        if not self._erred:
            self._output.add(bytes(self._later))
        self._rest, self._later, self._erred = b"", bytearray(), False

    def _line(self, line: bytes) -> None:
        line = _TIME.sub(b"", line.rstrip(b"\r").removeprefix(b"\xef\xbb\xbf"))
        self._later += line + b"\n"
        is_error = line.startswith(b"##[error]")
        self._erred = self._erred or is_error
        if is_error or len(self._later) > 64_000:
            self._output.add(bytes(self._later))
            self._later.clear()


_TIME = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.]{8,20}Z ")
