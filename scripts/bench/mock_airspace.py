"""The airspace half of the mock room: docs/airspace.md over HTTP and frames, with a made-up codebase to look at.

Invariant: everything made up comes from one seeded generator, so two runs show the same picture.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from relay.faces.worktrees import Beside, stands

Json = dict[str, Any]
Point = list[float]

FOLDERS = (
    ("src/checkout", 60, ("cart.py", "money.py", "session.py", "tax.py", "refund.py")),
    ("src/auth", 45, ("session.py", "token.py", "login.py", "rights.py")),
    ("src/search", 70, ("index.py", "rank.py", "query.py")),
    ("src/mail", 25, ("template.py", "outbox.py")),
    ("web/components", 110, ("Cart.tsx", "Header.tsx", "Search.tsx")),
    ("web/pages", 50, ("index.tsx", "checkout.tsx")),
    ("tests/checkout", 40, ("test_cart.py", "test_money.py")),
    ("tests/auth", 30, ("test_session.py",)),
    ("migrations", 35, ("0001_start.sql",)),
    ("docs", 30, ("index.md",)),
)


def stamp(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _seed(text: str) -> random.Random:
    return random.Random(hashlib.sha256(text.encode()).digest())


def coordinates(files: int = 0, seed: str = "shop") -> dict[str, Point]:
    """A cloud in which files of one folder stand together, as the path embedding places them. `files` = about
    how many; 0 = the small shop of FOLDERS."""
    made: dict[str, Point] = {}
    total = sum(count for _, count, _ in FOLDERS)
    scale = max(1.0, files / total) if files else 1.0
    for folder, count, named in FOLDERS:
        parts = folder.split("/")
        centre = [0.0, 0.0, 0.0]
        for depth in range(len(parts)):
            rng = _seed(seed + "/".join(parts[: depth + 1]))
            centre = [c + rng.gauss(0, 1) * (0.62, 0.34)[min(depth, 1)] for c in centre]
        rng = _seed(seed + folder + "files")
        names = [
            *named,
            *(f"part_{n // 40:03d}/file_{n:05d}.py" for n in range(int(count * scale) - len(named))),
        ]
        spread = 0.13 * (1 + 0.12 * len(names) ** (1 / 3))
        groups: dict[str, Point] = {}
        for name in names:
            group = name.rsplit("/", 1)[0] if "/" in name else ""
            middle = groups.setdefault(group, [c + rng.gauss(0, spread) for c in centre])
            made[f"{folder}/{name}"] = [round(m + rng.gauss(0, spread * 0.45), 4) for m in middle]
    return made


def reading(risk: float, weight: float, *evidence: Json, alone: bool = True) -> Json:
    return {"risk": risk, "weight": weight, "alone": alone, "evidence": list(evidence)}


def new_link(a: str, b: str, risk: float, level: str, **readings: Json) -> Json:
    channels = {name: channel["risk"] for name, channel in readings.items()}
    return {
        "a": a,
        "b": b,
        "risk": risk,
        "distance": round(1 - risk, 4),
        "level": level,
        "channels": channels,
        "readings": readings,
    }


def new_advisory(number: int, agents: list[str], level: str, **more: Any) -> Json:
    at = datetime.now(UTC) - timedelta(minutes=2)
    return {
        "id": f"adv-{number}",
        "agents": agents,
        "level": level,
        "risk": 0.5 if level == "advisory" else 0.9,
        "opened_at": stamp(at),
        "closed_at": None,
        "files": [],
        "transmit": agents,
        "steer": [],
        "hold": [],
        "reason": "",
        "evidence": [],
        "text": "",
        "message_id": None,
        "answers": {},
        "deadline_at": None,
        "outcome": None,
        "mark": None,
        "steering": None,
    } | more


def new_worktree(agent: str, **more: Any) -> Json:
    return {
        "agent": agent,
        "path": f".relay/worktrees/{agent.lower()}",
        "branch": f"relay/{agent.lower()}",
        "base": "4f2a9c1d7be0",
        "ahead": 1,
        "behind": 0,
        "dirty": False,
        "files": 2,
        "insertions": 14,
        "deletions": 3,
        "own": True,
        "into": "main",
        "merges": "clean",
        "conflicts": [],
        "joined": [],
        "lines": {},
        "collides": [],
        "joins": [],
        "untried": [],
        "undoes": [],
        "landed": None,
        "unsettled": False,
        "merging": False,
        "needless": False,
        "ports": None,
        "setup": None,
        "app": None,
        "busy": "",
        "disk": None,
    } | more


class MockAirspace:
    """What the airspace's routes answer. A test changes the fields, and `tick`s."""

    def __init__(self, tell: Callable[[str, Json], None], store: Callable[[str, Json], None]) -> None:
        self._tell = tell
        self._store = store
        self.enabled = True
        self.cloud = coordinates()
        self.sets: dict[str, dict[str, list[list[int]]]] = {}
        self.positions: dict[str, Point] = {}
        self.people: set[str] = set()
        self.intents: dict[str, list[str]] = {}
        #: Where an agent of another relay lives, by agent: `{member, away}`.
        self.away: dict[str, Json] = {}
        self.links: list[Json] = []
        self.advisories: dict[str, Json] = {}
        self.precision: Json = {"true": 0, "false": 0, "open": 0, "averted": 0, "useful": 0, "noise": 0}
        self.graph: Json = {"files": len(self.cloud), "edges": 1450, "failed": [], "building": False}
        self.samples: list[Json] = []
        self.trees: list[Json] = []
        self.order: list[Json] = []
        #: What people said of who goes on: (action, agent).
        self.said: list[tuple[str, str]] = []
        self.trouble = ""
        self.troubles: dict[str, str] = {}
        #: False: not all were looked at since the room started.
        self.surveyed = True
        self.diffs: dict[str, Json] = {}
        self.merge_answers: dict[str, Json] = {}
        self.merged: list[str] = []
        #: What was sent with merges, what was brought back, and merges that are not possible, by agent.
        self.asked: list[Json] = []
        self.restored: list[str] = []
        self.proposals: dict[str, Json] = {}
        #: Of every proposal: what relay joins (`joined`, `diff`, `tree`).
        self.joined: dict[str, Any] = {"joined": [], "diff": "", "tree": ""}
        self.note = ""
        self.first = ""
        self.marks: list[tuple[str, str | None]] = []
        self.requests: list[Json] = []
        self.decided: list[tuple[str, str]] = []
        #: None = there; else the error that `GET /api/airspace` answers.
        self.missing: str | None = None

    # -- what a test makes happen

    def fly(
        self, agent: str, files: dict[str, list[list[int]]], person: bool = False, at: Point | None = None
    ) -> None:
        """Give an agent a working set; it stands in the middle of it."""
        self.sets[agent] = files
        if person:
            self.people.add(agent)
        known = [self.cloud[path] for path in files if path in self.cloud]
        middle = (
            [round(sum(axis) / len(known), 4) for axis in zip(*known, strict=True)]
            if known
            else [0.0, 0.0, 0.0]
        )
        self.positions[agent] = at or middle

    def state(self, cloud: bool = True) -> Json:
        levels = [link["level"] for link in self.links]
        agents = [
            self.away.get(agent, {})
            | {
                "agentId": agent,
                "kind": "person" if agent in self.people else "agent",
                "files": [
                    {"path": path, "lines": lines, "weight": round(1 - 0.07 * n, 2), "change": "modified"}
                    | {"new_path": None}
                    for n, (path, lines) in enumerate(files.items())
                ],
                "intent": self.intents.get(agent, []),
                "startedAt": stamp(datetime.now(UTC) - timedelta(minutes=50)),
                "committed": len(files) // 2,
                "branch": f"relay/{agent.lower()}",
                "position": self.positions[agent],
            }
            for agent, files in self.sets.items()
        ]
        answer = {
            "profile": "calibrated",
            "enabled": self.enabled,
            "thresholds": {"traffic": 0.35, "resolution": 0.7, "slack": 0.05},
            "agents": agents,
            "links": self.links,
            "advisories": [
                advisory for advisory in self.advisories.values() if advisory["closed_at"] is None
            ],
            "positions": self.positions,
            "counts": {
                "agents": len(agents),
                "pairs": len(agents) * (len(agents) - 1) // 2,
                "clear": levels.count("clear"),
                "advisory": levels.count("advisory"),
                "resolution": levels.count("resolution"),
                "files": len({path for files in self.sets.values() for path in files}),
            },
            "graph": self.graph,
            "precision": self.precision,
            "at": stamp(datetime.now(UTC)),
        }
        return answer | ({"fileCoordinates": self.cloud} if cloud else {})

    def tick(self, cloud: bool = True) -> None:
        """A frame of it: with the coordinates of the files that somebody works on, or of none."""
        state = self.state(cloud=False)
        touched = {
            path: self.cloud[path] for files in self.sets.values() for path in files if path in self.cloud
        }
        self._tell("airspace", state | ({"fileCoordinates": touched} if cloud else {}))

    def advise(self, advisory: Json) -> Json:
        self.advisories[advisory["id"]] = advisory
        self._store("advisory", advisory)
        return advisory

    def ask(self, request: Json) -> None:
        self.requests.append(request)
        self._tell("permission", request)

    def settle(self, request: str) -> None:
        """Answered elsewhere, or its time is over."""
        self.requests = [waiting for waiting in self.requests if waiting["id"] != request]
        self._tell("permission", {"id": request, "state": "answered"})

    # -- the routes

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/api/airspace", self._state)
        router.add_get("/api/airspace/history", self._history)
        router.add_get("/api/airspace/advisories", self._advisories)
        router.add_post("/api/airspace/advisories/{id}/mark", self._mark)
        router.add_post("/api/airspace/decide", self._say_who)
        router.add_get("/api/worktrees", self._worktrees)
        router.add_get("/api/worktrees/{agent}/app", self._printed)
        for what in ("run", "stop", "setup"):
            router.add_post(f"/api/worktrees/{{agent}}/{what}", self._tend)
        router.add_get("/api/worktrees/{agent}/diff", self._diff)
        router.add_get("/api/worktrees/{agent}/merge", self._propose)
        router.add_post("/api/worktrees/{agent}/merge", self._merge)
        router.add_post("/api/worktrees/{agent}/discard", self._discard)
        router.add_post("/api/worktrees/{agent}/restore", self._restore)
        router.add_post("/api/worktrees/{agent}/abort", self._abort)
        router.add_get("/api/needs", self._needs)
        router.add_get("/api/pins", self._pins)
        router.add_get("/api/permissions", self._permissions)
        router.add_post("/api/permissions/{id}", self._decide)

    async def _state(self, _: web.Request) -> web.Response:
        if self.missing:
            error = {"code": "no_repository", "message": self.missing, "fix": "Set `workspace.repo`."}
            return web.json_response({"error": error}, status=404)
        return web.json_response(self.state())

    async def _history(self, request: web.Request) -> web.Response:
        since, until = request.query["from"], request.query["to"]
        return web.json_response({"samples": [s for s in self.samples if since <= s["at"] <= until]})

    async def _advisories(self, _: web.Request) -> web.Response:
        return web.json_response({"advisories": list(self.advisories.values()), "precision": self.precision})

    async def _mark(self, request: web.Request) -> web.Response:
        mark = (await request.json())["mark"]
        advisory = self.advisories[request.match_info["id"]] | {"mark": mark}
        self.marks.append((advisory["id"], mark))
        return web.json_response(self.advise(advisory))

    async def _say_who(self, request: web.Request) -> web.Response:
        decision = await request.json()
        self.said.append((decision["action"], decision["agent"]))
        return web.json_response({"success": True, "reason": f"{decision['agent']} was asked."})

    async def _worktrees(self, _: web.Request) -> web.Response:
        answer = {
            "worktrees": [
                tree | {"stands": stands({"working": False} | tree, Beside())} for tree in self.trees
            ],
            "order": self.order,
            "surveyed": self.surveyed,
            "trouble": self.trouble,
            "troubles": self.troubles,
            "polling": "",
            "commands": {"setup": True, "run": True, "archive": False},
            "disk": {"bytes": 412_000_000, "cap": None, "full": False, "removable": []},
        }
        return web.json_response(answer)

    async def _printed(self, request: web.Request) -> web.Response:
        tree = next(t for t in self.trees if t["agent"] == request.match_info["agent"])
        runs = {key: tree[key] for key in ("ports", "setup", "app", "busy", "disk")}
        return web.json_response({"agent": tree["agent"], **runs})

    async def _tend(self, request: web.Request) -> web.Response:
        agent, what = request.match_info["agent"], request.path.rpartition("/")[2]
        self.said.append((what, agent))
        return web.json_response({"success": True, "reason": f"{what} of {agent}."})

    async def _diff(self, request: web.Request) -> web.Response:
        return web.json_response(self.diffs[request.match_info["agent"]])

    async def _propose(self, request: web.Request) -> web.Response:
        agent, squash = request.match_info["agent"], request.query["method"] == "squash"
        if (refused := self.proposals.get(agent)) is not None:
            return web.json_response(refused)
        tree = next(t for t in self.trees if t["agent"] == agent)
        subject = "Round totals to cents" if squash else f"Merge {tree['branch']}: Round totals to cents"
        trailers = ["Co-authored-by: Bo Berg <bo@example.net>"]
        text = f"{subject}\n\nAdded `total()`, which rounds half up.\n"
        return web.json_response(
            {
                "agent": agent,
                "branch": tree["branch"],
                "into": "main",
                "method": request.query["method"],
                "head": "4f2a9c1d",
                "text": text,
                "trailers": trailers,
                "message": "\n".join([text, *trailers, ""]),
                "author": f"{agent} <{agent.lower()}@relay>",
                "committer": "Ann Lee <ann@example.com>",
                "note": self.note,
                "decided": self.first,
                "commits": tree["ahead"] + tree["dirty"],
                "files": tree["files"],
                **self.joined,
            }
        )

    async def _discard(self, request: web.Request) -> web.Response:
        agent = request.match_info["agent"]
        self.before = next(t for t in self.trees if t["agent"] == agent)
        gone = {"ahead": 0, "files": 0, "dirty": False, "merges": "nothing"}
        self.trees = [t | gone if t["agent"] == agent else t for t in self.trees]
        kept_ref = f"refs/relay/kept/{agent.lower()}/1"
        reason = f"ann discarded the work on {self.before['branch']}. All of it is kept in `{kept_ref}`."
        return web.json_response({"success": True, "reason": reason, "kept": kept_ref, "commit": "9b1c2d3e"})

    async def _restore(self, request: web.Request) -> web.Response:
        agent = request.match_info["agent"]
        self.restored.append((await request.json())["kept"])
        self.trees = [self.before if t["agent"] == agent else t for t in self.trees]
        return web.json_response({"success": True, "reason": f"ann brought back the work of {agent}."})

    async def _abort(self, request: web.Request) -> web.Response:
        agent = request.match_info["agent"]
        ended = {"merging": False, "unsettled": False}
        self.trees = [t | ended if t["agent"] == agent else t for t in self.trees]
        reason = "The merge of main is given up. What stood in the files is kept in `refs/relay/kept/ben/1`."
        if request.can_read_body and (await request.json()).get("settle"):
            reason = "The room is asked about c1: `/resolve c1 1` to `5`."
        return web.json_response({"success": True, "reason": reason})

    async def _merge(self, request: web.Request) -> web.Response:
        agent = request.match_info["agent"]
        self.asked.append(await request.json())
        answer = self.merge_answers.get(agent, {"success": True, "reason": "", "commit": "9b1c2d3e4f5a"})
        if "error" in answer:
            return web.json_response(answer, status=409)
        if answer["success"]:
            self.merged.append(agent)
            self.trees = [
                t
                | {"ahead": 0, "files": 0, "insertions": 0, "deletions": 0, "merges": "nothing"}
                | {"landed": answer["commit"]}
                if t["agent"] == agent
                else t
                for t in self.trees
            ]
        return web.json_response(answer)

    async def _pins(self, _request: web.Request) -> web.Response:
        return web.json_response({"pins": []})

    async def _needs(self, _: web.Request) -> web.Response:
        return web.json_response([])

    async def _permissions(self, _: web.Request) -> web.Response:
        return web.json_response({"requests": self.requests})

    async def _decide(self, request: web.Request) -> web.Response:
        wanted, option = request.match_info["id"], (await request.json())["option"]
        if not any(waiting["id"] == wanted for waiting in self.requests):
            return web.json_response({"success": False, "reason": "The request was answered already."})
        self.decided.append((wanted, option))
        self.settle(wanted)
        return web.json_response({"success": True, "reason": ""})
