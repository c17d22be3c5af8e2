"""Idempotency: a request with a key is done once, and its answer given again.

Invariants:
- the answer and what the request changed commit together, so either both are there or neither;
- a key belongs to one agent and one operation; used again for another request it is refused, and changes nothing;
- only what was done is kept: a request that was refused, or that found a lock held, is tried anew with its key;
- an answer is kept for `KEPT_S`; after that the key is a new one.

Everything here runs in the caller's transaction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from relay.model import Caller, Json, Refusal
from relay.model.validation import digest, malformed
from relay.store.ports import Queries, Tx

Q = Queries(Path(__file__).parent)
#: Seconds that an answer is kept. A client that tries again does so within minutes; a day spans a night's outage.
KEPT_S = 86_400.0
#: What a key may be. RFC drafts for the Idempotency-Key header leave it to the server; a UUID or a short text fits.
_KEY = re.compile(r"[\x21-\x7e]{1,200}")


async def once(
    tx: Tx,
    caller: Caller,
    operation: str,
    key: str | None,
    request: Mapping[str, Any],
    work: Callable[[], Awaitable[Json]],
) -> Json:
    """What `work` answers, or, with a key that was answered before, that answer with `repeated: true`.

    `request` holds everything that makes two requests the same (JSON values). Without a key `work` simply runs.
    Raises Refusal: MALFORMED for a key that is none, REFUSED `idempotency_key_reused`, and what `work` raises.
    """
    if key is None:
        return await work()
    if not _KEY.fullmatch(key):
        fix = "It has 1 to 200 visible ASCII characters without spaces, for example a UUID."
        raise malformed("idempotency_key", f"{key[:40]!r} is not an idempotency key.", fix)
    sha, now = digest(request), await tx.now()
    row = await tx.one(Q.answered, agent_id=caller.agent, operation=operation, key=key, since=now - KEPT_S)
    if row is not None and row["request_sha"] != sha:
        message = f"The idempotency key {key!r} was used for another {operation} request."
        fix = "Send a new key with a new request, or the first request as it was."
        raise Refusal(message, fix, code="idempotency_key_reused")
    if row is not None:
        return {**json.loads(row["answer"]), "repeated": True}
    answer = await work()
    if answer.get("success") is True:
        await tx.execute(Q.forget_answers, before=now - KEPT_S)
        stored = {"request_sha": sha, "answer": json.dumps(answer, ensure_ascii=False), "at": now}
        await tx.execute(Q.put_answer, agent_id=caller.agent, operation=operation, key=key, **stored)
    return answer


async def forget(tx: Tx, caller: Caller, operation: str, key: str) -> None:
    """What the request with this key got was given back before anybody heard of it: it is done anew."""
    await tx.execute(Q.forget_answer, agent_id=caller.agent, operation=operation, key=key)
