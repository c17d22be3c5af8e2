"""The mock room's timeline (docs/timeline.md): as many events as a test or a measurement wants.

It decides nothing: `history` makes the events, and a test says what a rewind answers.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

Json = dict[str, Any]
DAY_MS = 86_400_000
#: Heads of a page at most, as of a real room.
MOST = 4096


class MockTimeline:
    """`events`: the heads, oldest first: `{number, at, lane, who, type, paths, word, unseen, causes, replica}`, `at`
    in Unix milliseconds; `word`: a checkpoint's name, what was done to a worktree, whose work was taken back."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        #: By path of a folder: what stands in it.
        self.folders: dict[str, list[Json]] = {}
        self.files: dict[str, str] = {}
        self.patches: list[Json] = []
        self.checkpoints: list[Json] = []
        #: What a rewind, an undo and a redo answer, and what was asked of them.
        self.answer: Json = {}
        #: What is taken back now, and the handoffs that are not through.
        self.taken: Json = {"rewinds": [], "undo": None, "redo": None}
        self.handoffs: list[Json] = []
        self.refusal: Json = {}
        self.asked: list[tuple[str, Json]] = []

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/timeline/heads", self._heads)
        router.add_get("/api/timeline/events/{event}", self._event)
        router.add_get("/api/timeline/rewinds", self._rewinds)
        router.add_get("/api/handoffs", self._open_handoffs)
        router.add_get("/api/timeline/tree", self._tree)
        router.add_get("/api/timeline/file", self._file)
        router.add_get("/api/timeline/diff", self._diff)
        router.add_get("/api/timeline/checkpoints", self._checkpoints)
        router.add_post("/api/timeline/checkpoint", self._checkpoint)
        for act in ("rewind", "undo", "redo"):
            router.add_post(f"/api/timeline/{act}", self._act)

    def add(self, who: str, kind: str = "files.changed", *paths: str, **more: Any) -> Json:
        """One more event; `at` in Unix milliseconds, else now."""
        lane = more.pop("lane", f"room/human:{who}" if who.islower() else f"{who.lower()}-1/{who}")
        event = {
            "number": (self.events[-1]["number"] if self.events else 0) + 1,
            "at": round(datetime.now(UTC).timestamp() * 1000),
            "lane": lane,
            "who": who,
            "type": kind,
            "paths": list(paths),
            "word": "",
            "unseen": 0,
            "causes": [],
            "replica": "",
        } | more
        self.events.append(event)
        return event

    def history(self, count: int, *, agents: int = 8, days: float = 90.0, seed: int = 12) -> None:
        """`count` events of so many agents and two people, in working hours of so many days that end now: turns,
        changes, some of them unseen, merges, checkpoints, handoffs, conflicts, a few rewinds."""
        chance = random.Random(seed)
        names = [f"AGENT{n}" if n > 3 else ("CLAUDE", "CODEX", "GEMINI", "QWEN")[n] for n in range(agents)]
        rare = 0.04 if count < 10_000 else 0.006
        until = datetime.now(UTC).timestamp() * 1000
        begin = until - days * DAY_MS
        times = sorted(_working(chance, begin, until) for _ in range(count))
        last_write: dict[str, tuple[int, str]] = {}
        in_turn: dict[str, int] = {}
        for at in times:
            who = chance.choice(names) if chance.random() < 0.93 else chance.choice(("ann", "ben"))
            when = {"at": round(at)}
            if who.isupper() and who not in in_turn:
                in_turn[who] = self.add(who, "turn.started", **when)["number"]
                continue
            path = f"src/{chance.choice(('cart', 'pay', 'ui', 'db'))}/{chance.choice('abcdefgh')}.py"
            draw = chance.random()
            if who.isupper() and draw < 0.12:
                self.add(who, "turn.ended", causes=[], **when)
                del in_turn[who]
            elif draw < 0.78:
                before = last_write.get(path)
                foreign = before is not None and before[1] != who
                blind = foreign and chance.random() < 0.1
                causes = [before[0]] if before and foreign and not blind else []
                event = self.add(
                    who, "files.changed", path, unseen=int(blind), causes=causes, word="tool", **when
                )
                last_write[path] = (event["number"], who)
            elif draw < 0.9:
                self.add(who, "files.read", path, word="tool", **when)
            elif draw < 0.9 + rare:
                self.add(
                    who, "worktree.changed", word=chance.choice(("created", "merged", "taken_in")), **when
                )
            elif draw < 0.9 + rare * 1.5:
                self.add(
                    who, "checkpoint.made", word=chance.choice(("first green", "before the move")), **when
                )
            elif draw < 0.9 + rare * 1.8:
                self.add(who, "handoff", word="developer", causes=[], **when)
            elif draw < 0.9 + rare * 2:
                self.add(who, "conflict.found", path, **when)
            elif draw > 0.9 + rare * 2.2:
                self.add(who, "files.changed", path, word="tool", **when)
            else:
                kind = chance.choice(("timeline.rewound", "timeline.undone", "timeline.redone"))
                self.add(who if who.islower() else "ann", kind, path, word=chance.choice(names), **when)

    # -- HTTP

    async def _heads(self, request: web.Request) -> web.Response:
        query = request.query
        after, before = int(query.get("after", 0)), int(query.get("before", 2**62))
        limit, path = int(query.get("limit", MOST)), query.get("path", "")
        # Events are numbered without a gap here.
        rows = self.events[after : max(after, min(before - 1, len(self.events)))]
        if path:
            rows = [
                row
                for row in rows
                if any(each == path or each.startswith(f"{path.strip('/')}/") for each in row["paths"])
            ]
        page = rows[-limit:] if "before" in query else rows[:limit]
        return web.json_response({**_columns(page), "more": len(rows) > limit})

    async def _rewinds(self, _: web.Request) -> web.Response:
        return web.json_response(self.taken)

    async def _open_handoffs(self, _: web.Request) -> web.Response:
        return web.json_response({"handoffs": self.handoffs})

    async def _event(self, request: web.Request) -> web.Response:
        text = request.match_info["event"]
        number = int(text) if text.isdigit() else int(text.removeprefix("e") or 0)
        if not 0 < number <= len(self.events):
            return web.json_response(
                {"error": {"code": "unknown_moment", "message": f"There is no event #{number}.", "fix": ""}},
                status=404,
            )
        row = self.events[number - 1]
        changed = row["type"] == "files.changed"
        touches = [
            {"path": path, "before": "a" * 40, "after": "b" * 40, "kind": "write"} for path in row["paths"]
        ]
        outputs = {"touches": touches, "source": "tool"} if changed else {"word": row["word"]}
        outputs |= row.get("outputs", {})
        return web.json_response(
            {
                **self._head(row),
                "inputs": {"tree": "c" * 40} if changed else None,
                "outputs": outputs,
                "knew": {
                    "seen": [self._head(self.events[cause - 1]) for cause in row["causes"]],
                    "unseen": [{"path": row["paths"][0], "event": "e1"}] if row["unseen"] else [],
                },
            }
        )

    def _head(self, row: Json) -> Json:
        at = datetime.fromtimestamp(row["at"] / 1000, UTC).isoformat().replace("+00:00", "Z")
        return {
            "number": row["number"],
            "id": f"{row['number']:064x}",
            "type": row["type"],
            "lane": row["lane"],
            "seq": row["number"],
            "at": at,
            "role": "agent",
            "branch": None,
            "snapshot": "d" * 40 if row["type"].startswith(("files.", "checkpoint.")) else None,
            "files": row["paths"],
            "replica": row["replica"] or None,
        }

    async def _tree(self, request: web.Request) -> web.Response:
        at, path = request.query.get("at", "now"), request.query.get("path", "")
        return web.json_response(
            {
                "moment": {"words": at, "number": 0, "event": None},
                "lane": request.query.get("lane"),
                "tree": "d" * 40,
                "path": path,
                "entries": self.folders.get(path, []),
            }
        )

    async def _file(self, request: web.Request) -> web.Response:
        path = request.query["path"]
        text = self.files.get(path, "")
        nobody = {"by": None, "event": None, "number": None, "at": None}
        about = {"path": path, "kind": "file", "mode": "100644", "blob": "e" * 40, "size": len(text)}
        moment = {"words": request.query.get("at", "now"), "number": 0, "event": None}
        return web.json_response(
            {"moment": moment, **about, "binary": False, "cut": False, "text": text, **nobody}
        )

    async def _diff(self, request: web.Request) -> web.Response:
        ends = {
            side: {"words": request.query[side], "number": 0, "event": None, "tree": side * 40}
            for side in ("a", "b")
        }
        return web.json_response({**ends, "lane": None, "path": "", "files": self.patches})

    async def _checkpoints(self, _: web.Request) -> web.Response:
        return web.json_response({"checkpoints": self.checkpoints})

    async def _checkpoint(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append(("checkpoint", body))
        event = self.add(body["name"], "checkpoint.made", word=body["checkpoint"])
        about = {"event": f"{event['number']:064x}", "lane": event["lane"], "at": self._head(event)["at"]}
        made = {"name": body["checkpoint"], "number": event["number"], "tree": "d" * 40, "kind": "user"}
        self.checkpoints.insert(0, made | about)
        return web.json_response({"success": True, **self.checkpoints[0]}, status=201)

    async def _act(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked.append((request.path.rsplit("/", 1)[1], body))
        if self.refusal:
            return web.json_response(self.refusal)
        answer = self.answer | ({"rewind": None} if body.get("dry_run") else {})
        return web.json_response(
            {"success": not answer["conflicts"] or answer["rewind"] is not None, **answer}
        )


def _working(chance: random.Random, begin: float, until: float) -> float:
    """A time of a day, more often by day than by night."""
    while True:
        at = begin + chance.random() * (until - begin)
        if until - begin > DAY_MS and chance.random() < 0.8:
            at += (8 + min(10.0, abs(chance.gauss(4, 3)))) * 3_600_000 - at % DAY_MS
        if begin <= at <= until:
            return at


def _words(row: Json) -> str:
    """What it did, of the form in which a room says it."""
    match row["type"]:
        case "files.changed":
            return f"wrote {len(row['paths'])}" + ", 1 unseen" * row["unseen"]
        case "files.read":
            return "read"
        case "checkpoint.made":
            return f"made the checkpoint {row['word']}"
        case _:
            return f"{row['type'].replace('.', ' ')} {row['word']}".rstrip()


def _columns(rows: list[Json]) -> Json:
    named = ("lanes", "names", "types", "paths", "words", "changes", "replicas")
    lists: dict[str, dict[str, int]] = {name: {} for name in named}

    def place(name: str, text: str) -> int:
        return -1 if not text else lists[name].setdefault(text, len(lists[name]))

    start = min((row["at"] for row in rows), default=0)
    return {
        "number": [row["number"] for row in rows],
        "at": [row["at"] - start for row in rows],
        "lane": [place("lanes", row["lane"]) for row in rows],
        "who": [place("names", row["who"]) for row in rows],
        "type": [place("types", row["type"]) for row in rows],
        "files": [len(row["paths"]) for row in rows],
        "file": [place("paths", row["paths"][0] if row["paths"] else "") for row in rows],
        "word": [place("words", _words(row)) for row in rows],
        "change": [
            place("changes", row["word"] if row["type"] == "worktree.changed" else "") for row in rows
        ],
        "unseen": [row["unseen"] for row in rows],
        "tree": [int(row["type"].startswith(("files.", "checkpoint."))) for row in rows],
        "replica": [place("replicas", row["replica"]) for row in rows],
        "causes": [row["causes"] for row in rows],
        "start": start,
        **{name: list(texts) for name, texts in lists.items()},
    }
