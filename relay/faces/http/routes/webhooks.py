"""What GitHub tells by webhook (docs/verification.md, "GitHub").

Invariants:
- a delivery needs no key of the room and a valid signature; without the secret in the environment none is valid;
- a change is queued in one transaction before it is answered, and once for each delivery, however often GitHub sends
  it and in whatever order deliveries come. GitHub is asked nothing meanwhile;
- at most `LARGE_AT_ONCE` large bodies are in memory: whoever has no secret cannot fill it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from functools import partial

from aiohttp import web

from relay.config.settings import LiveSettings
from relay.faces.http.requests.connections import trust
from relay.faces.http.requests.errors import HttpRefusal, answer
from relay.faces.http.requests.limits import Buckets, Limits
from relay.faces.http.requests.middleware import too_many
from relay.faces.http.requests.parsing import bad, read_bytes
from relay.model import Fault, Refusal
from relay.store.ports import Store
from relay.verification import journal
from relay.verification.github import webhook
from relay.verification.github.webhook import Ignored, RunOver
from relay.verification.service import queued
from relay.verification.verification import Change

#: Bytes of a body that is read and checked on a thread, and how many of those are taken at once.
LARGE, LARGE_AT_ONCE = 256 * 1024, 4
_SIGNATURE = re.compile(r"sha256=[0-9a-f]{64}")
_DELIVERY = re.compile(r"[\x21-\x7e]{1,200}")


class GithubWebhooks:
    """The handler. `wake` is told of runs that are over, and says whether somebody waits for one; `environ`: the
    variables of this process, one of which has the secret."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        limits: Limits,
        wake: Callable[[RunOver], bool] = lambda over: False,
        *,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._store, self._settings, self._limits, self._wake = store, settings, limits, wake
        self._environ = os.environ if environ is None else environ
        self._forged = Buckets(limits.refused)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)

    def table(self) -> list[web.RouteDef]:
        return [web.post("/webhook/github", self.take)]

    async def take(self, request: web.Request) -> web.Response:
        """A delivery: 202 `{success, changeset_id, number, reference, state}` for a change that is queued, else 200
        `{success, ignored}` or, for a run of ours that is over, `{success, run}`."""
        signature = self._signature(request)
        event, delivery = _header(request, "X-GitHub-Event"), _header(request, "X-GitHub-Delivery")
        read = partial(
            self._read, kind=request.content_type, signature=signature, event=event, delivery=delivery
        )
        size = request.content_length
        if size is not None and size <= LARGE and "Content-Encoding" not in request.headers:
            told = read(await self._body(request))
        else:
            async with self._large:
                told = await asyncio.to_thread(read, await self._body(request))
        if told is None:
            raise self._refused(request, "The signature is not that of this body and this room's secret.")
        trust(request)
        if isinstance(told, Ignored):
            return answer({"success": True, "ignored": told.why})
        if isinstance(told, RunOver):
            if self._wake(told):
                return answer({"success": True, "run": told.relay_id or str(told.run)})
            return answer({"success": True, "ignored": "nobody here waits for this run"})
        made = await self._store.write(
            partial(journal.ask, change=told, source_key=f"github:{delivery}"), durable=True
        )
        return answer(queued(made, told), status=202)

    async def _body(self, request: web.Request) -> bytes:
        return await read_bytes(request, webhook.MOST_BYTES, self._limits.body_s)

    def _read(
        self, body: bytes, kind: str, signature: str, event: str, delivery: str
    ) -> Change | RunOver | Ignored | None:
        """What the delivery means; None: it is not signed with this room's secret. Raises Refusal."""
        if not webhook.is_signed(self._secret, body, signature):
            return None
        payload = webhook.read_body(body, kind)
        repo = self._settings.current.verification.github.repo
        return webhook.parse(event, delivery, payload, journal.new_id(), repo)

    @property
    def _secret(self) -> str:
        return self._environ.get(self._settings.current.verification.github.secret_env, "")

    def _signature(self, request: web.Request) -> str:
        """The signature that was sent, before any of the body is read. Raises Refusal."""
        if not self._secret:
            raise self._refused(request, "This room has no secret of a webhook, so it takes no delivery.")
        signature = request.headers.get("X-Hub-Signature-256", "")
        if not _SIGNATURE.fullmatch(signature):
            raise self._refused(request, "The delivery is not signed: X-Hub-Signature-256 is missing.")
        return signature

    def _refused(self, request: web.Request, message: str) -> Refusal:
        wait = self._forged.take(request.remote or "")
        if wait:
            return too_many(wait)
        variable = self._settings.current.verification.github.secret_env
        fix = f"Set {variable} in the room's environment to the secret of the webhook, and restart the room."
        return HttpRefusal(
            message, fix, Fault.FORBIDDEN, "no_credential", headers={"WWW-Authenticate": "Signature"}
        )


def _header(request: web.Request, name: str) -> str:
    value = request.headers.get(name, "")
    if not _DELIVERY.fullmatch(value):
        raise bad(f"The header {name} is missing, or is none of GitHub's.", "Send it as GitHub does.")
    return value
