"""A model service on a real socket, for the real agent programs: Anthropic's, OpenAI's two, and Gemini's wire.

It asks for one tool call (a write into a file, or any by name) when told to, then says "Hello there."; or it answers
every request with one HTTP error.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

ANSWER = ("Hello ", "there.")


class FakeService:
    """`write`: the file that the model wants to write once a turn; `patch`: Codex by its own tool, not by a shell.
    `call`: another tool that it uses once a turn, with its arguments, by the name that the program gives it. `error`:
    (status, body) for all."""

    def __init__(self) -> None:
        self.write: str | None = None
        self.patch = False
        self.call: tuple[str, dict[str, Any]] | None = None
        self.error: tuple[int, dict[str, Any]] | None = None
        self.requests: list[str] = []
        self.url = ""

    def pi_models(self) -> dict[str, Any]:
        """What pi's `models.json` says to have `fake/m` from here."""
        one = {
            "baseUrl": f"{self.url}/v1",
            "apiKey": "sk-none",
            "api": "openai-completions",
            "models": [{"id": "m"}],
        }
        return {"providers": {"fake": one}}

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[FakeService]:
        app = web.Application(client_max_size=64 * 1_048_576)
        app.router.add_route("*", "/{path:.*}", self._handle)
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        path = request.path
        if request.method == "GET" and path.endswith("/responses"):
            return web.Response(status=426)  # no WebSocket here: codex falls back to plain HTTP at once
        answers = {
            "/messages": self._anthropic,
            "/responses": self._openai,
            "/chat/completions": self._chat,
            "treamGenerateContent": self._gemini,
        }
        for end, answer in answers.items():
            if path.endswith(end):
                self.requests.append(body)
                if self.error is not None:
                    return web.json_response(self.error[1], status=self.error[0])
                named = end in ("/messages", "/responses")
                return _events(answer(body), named=named, done=end == "/chat/completions")
        if path.endswith("generateContent"):  # gemini asks which model to take
            choice = json.dumps({"reasoning": "", "model_choice": "flash", "complexity_score": 1})
            return web.json_response(_gemini_piece([{"text": choice}], last=True))
        return web.json_response({}, status=404)

    @property
    def _acts(self) -> bool:
        return self.write is not None or self.call is not None

    def _anthropic(self, body: str) -> list[dict[str, Any]]:
        start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
        usage = {"input_tokens": 12, "output_tokens": 1}
        message = {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}
        if self._acts and '"tool_result"' not in body:
            name, given = self.call or ("Write", {"file_path": self.write, "content": "x"})
            arguments = json.dumps(given)
            blocks = [
                *_anthropic_block(
                    0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": "Let me look."}]
                ),
                *_anthropic_block(
                    1,
                    {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}},
                    [{"type": "input_json_delta", "partial_json": arguments}],
                ),
            ]
            reason = "tool_use"
        else:
            deltas = [{"type": "text_delta", "text": piece} for piece in ANSWER]
            blocks = _anthropic_block(0, {"type": "text", "text": ""}, deltas)
            reason = "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        return [
            {"type": "message_start", "message": message},
            *blocks,
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ]

    def _openai(self, body: str) -> list[dict[str, Any]]:
        # A server of tools may still be starting: Codex then has no such function yet.
        done = body.count('"type":"custom_tool_call_output"')
        if self._acts and done == body.count("is not a function") and done < 60:
            script = f"text(await tools.exec_command({json.dumps({'cmd': f'echo x > {self.write}'})}))"
            if self.patch:
                patch = f"*** Begin Patch\n*** Add File: {self.write}\n+x\n*** End Patch\n"
                script = f"text(await tools.apply_patch({json.dumps(patch)}))"
            if self.call is not None:
                name, given = self.call
                wait = "await new Promise(go => setTimeout(go, 500)); " if done else ""
                script = f"{wait}text(await tools.{name}({json.dumps(given)}))"
            call = {
                "type": "custom_tool_call",
                "id": f"ctc_{done + 1}",
                "call_id": f"c{done + 1}",
                "name": "exec",
                "input": script,
            }
            items = [_openai_message("m0", "Let me look."), call]
        else:
            items = [_openai_message("m1", "".join(ANSWER))]
        usage = {"input_tokens": 120, "output_tokens": 9, "total_tokens": 129}
        details = {
            "input_tokens_details": {"cached_tokens": 20},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        return [
            {"type": "response.created", "response": {"id": "r1"}},
            *({"type": "response.output_item.done", "item": item} for item in items),
            {"type": "response.completed", "response": {"id": "r1", "usage": {**usage, **details}}},
        ]

    def _chat(self, body: str) -> list[dict[str, Any]]:
        asked = json.loads(body)
        offered = [tool["function"]["name"] for tool in asked.get("tools", ())]
        answered = any(message["role"] == "tool" for message in _since_prompt(asked["messages"]))
        if self._acts and not answered:
            writer = ("write_file", "file_path") if "write_file" in offered else ("write", "path")
            name, given = self.call or (writer[0], {writer[1]: self.write, "content": "x"})
            function = {"name": name, "arguments": json.dumps(given)}
            call = {"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}
            deltas: list[dict[str, Any]] = [{"content": "Let me look."}, {"tool_calls": [call]}]
            reason = "tool_calls"
        else:
            deltas, reason = [{"content": piece} for piece in ANSWER], "stop"
        pieces = [{"index": 0, "delta": {"role": "assistant", **delta}} for delta in deltas]
        usage = {"prompt_tokens": 120, "completion_tokens": 9, "total_tokens": 129}
        head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
        return [
            *({**head, "choices": [piece]} for piece in pieces),
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**head, "choices": [], "usage": {**usage, "prompt_tokens_details": {"cached_tokens": 20}}},
        ]

    def _gemini(self, body: str) -> list[dict[str, Any]]:
        if self._acts and '"functionResponse"' not in body:
            name, given = self.call or ("write_file", {"file_path": self.write, "content": "x"})
            call = {"functionCall": {"name": name, "args": given}}
            return [_gemini_piece([{"text": "Let me look."}]), _gemini_piece([call], last=True)]
        return [_gemini_piece([{"text": ANSWER[0]}]), _gemini_piece([{"text": ANSWER[1]}], last=True)]


def _anthropic_block(index: int, block: dict[str, Any], deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _openai_message(ident: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": "assistant",
        "id": ident,
        "content": [{"type": "output_text", "text": text}],
    }


def _gemini_piece(parts: list[dict[str, Any]], *, last: bool = False) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, **({"finishReason": "STOP"} if last else {})}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 9, "totalTokenCount": 109}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-pro"}


def _since_prompt(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of this turn: what follows the last answer that called no tool."""
    plain = [
        number
        for number, message in enumerate(messages)
        if message["role"] == "assistant" and not message.get("tool_calls")
    ]
    return messages[plain[-1] + 1 :] if plain else messages


def _events(events: list[dict[str, Any]], *, named: bool, done: bool = False) -> web.Response:
    text = "".join(
        (f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events
    )
    text += "data: [DONE]\n\n" if done else ""
    return web.Response(text=text, content_type="text/event-stream")
