"""The explorations of a mock room: what they are is set, and what is asked of them is kept."""

from __future__ import annotations

from typing import Any

from aiohttp import web

Json = dict[str, Any]


class MockExplorations:
    """`all`: the newest first. `diffs`: by (variant, against). `asked`: what people chose."""

    def __init__(self) -> None:
        self.all: list[Json] = []
        self.diffs: dict[tuple[str, str], str] = {}
        self.asked: list[Json] = []

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/explorations", self._newest)
        router.add_get("/api/explorations/{number}/diff", self._diff)
        router.add_post("/api/explorations/{number}", self._choose)

    def add(self, *variants: Json, **more: Any) -> Json:
        """One more, with variants that `variant` made."""
        number = len(self.all) + 1
        made = {
            "exploration_id": f"x{number}",
            "number": number,
            "state": "waiting",
            "task": "Cache the answers of lookup()",
            "asker": "ann",
            "at": "2026-11-23T12:00:00Z",
            "policy": "human_review",
            "budget": {
                "max_duration_seconds": 60.0,
                "max_tokens": 10_000,
                "max_tool_calls": None,
                "max_cost_usd": 2.0,
            },
            "metrics": [{"name": "test_pass_rate", "weight": 1.0, "lower_is_better": False}],
            "variants": list(variants),
            "winner": None,
            "recommendation": "",
            "taken": {},
            "merged": None,
            "trouble": "",
        } | more
        self.all.insert(0, made)
        return made

    async def _newest(self, _: web.Request) -> web.Response:
        return web.json_response({"explorations": self.all})

    async def _diff(self, request: web.Request) -> web.Response:
        variant, against = request.query["variant"], request.query.get("against", "")
        told = {"variant": variant, "against": against or None, "truncated": False}
        return web.json_response({**told, "diff": self.diffs[variant, against]})

    async def _choose(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(body)
        self.all[0]["state"] = "done" if body["answer"] == "take" else "ended"
        self.all[0]["winner"] = body.get("variant")
        return web.json_response({"success": True, "reason": "x1: it is merged now."})


def variant(name: str, agent: str, **more: Any) -> Json:
    """A variant that has finished."""
    return {
        "name": name,
        "agent": agent,
        "branch": f"tw/ann/x1-{name}",
        "status": "completed",
        "metrics": {"test_pass_rate": 1.0},
        "notes": {},
        "weighted_score": 1.0,
        "passing": True,
        "resource_usage": {"seconds": 22.0, "tokens": 3100, "tool_calls": 9, "cost_usd": 0.4},
        "unwatched": [],
        "files_modified": 1,
        "commit": "1" * 40,
        "ref": f"refs/relay/explorations/x1/{name}",
    } | more
