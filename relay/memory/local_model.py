"""A question to the room's local model whose answer is JSON.

Invariant: what is shown to the model is data beside the instruction, and what comes back is text for the caller to
check. There is one size of the model's window in the room, so that it is not loaded anew for each kind of question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from relay.base.ollama_client import open_client
from relay.config.settings import DispatcherSettings

if TYPE_CHECKING:
    from ollama import AsyncClient

_OPTIONS = {"temperature": 0, "num_ctx": 8192, "num_predict": 2048}


async def answer_of(
    settings: DispatcherSettings, instruction: str, data: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    """What the dispatcher's model answers about the data, as text of the schema. Raises what the client raises."""
    client = await open_client(settings.ollama_host)
    import ollama  # a look-up: the thread that opened the client has imported it

    try:
        try:
            return await _chat(client, settings.model, instruction, data, schema, think=False)
        except ollama.ResponseError as error:
            # Some models and some older servers refuse to be told not to think.
            if error.status_code != 400 or "think" not in str(error.error):
                raise
            return await _chat(client, settings.model, instruction, data, schema, think=None)
    finally:
        await client.close()  # type: ignore[no-untyped-call]


async def _chat(
    client: AsyncClient,
    model: str,
    instruction: str,
    data: Mapping[str, Any],
    schema: Mapping[str, Any],
    *,
    think: bool | None,
) -> str:
    answer = await client.chat(
        model=model,
        messages=[
            {"role": "system", "content": instruction},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ],
        format=dict(schema),
        options=_OPTIONS,
        think=think,
        keep_alive="30m",
    )
    return answer.message.content or ""
