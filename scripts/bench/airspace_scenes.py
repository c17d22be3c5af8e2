"""Ready-made airspaces for the page's tests, its pictures and its benchmark."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from scripts.bench.mock_airspace import (
    Json,
    MockAirspace,
    coordinates,
    new_advisory,
    new_link,
    new_worktree,
    reading,
    stamp,
)

SESSION = "src/checkout/session.py"

DIFF = """\
diff --git a/src/checkout/session.py b/src/checkout/session.py
index 3f9c2e1..a1b2c3d 100644
--- a/src/checkout/session.py
+++ b/src/checkout/session.py
@@ -38,9 +38,12 @@ class Session:
     def renew(self) -> None:
         now = self.clock.now()
-        if self.expires < now:
-            raise Expired(self.id)
+        if self.expires + GRACE < now:
+            raise Expired(self.id, since=self.expires)
         self.expires = now + LIFETIME
+        self.log.info("renewed", session=self.id)

     def close(self) -> None:
+        self.renew_task.cancel()
         self.store.delete(self.id)
diff --git a/src/checkout/refund.py b/src/checkout/refund.py
new file mode 100644
index 0000000..ce01362
--- /dev/null
+++ b/src/checkout/refund.py
@@ -0,0 +1,4 @@
+def refund(cart: Cart) -> Money:
+    \"\"\"What the customer gets back: <b>never</b> more than was paid.\"\"\"
+    return min(cart.paid, cart.total)
+# <script>window.hacked = 1</script>
diff --git a/docs/flow.png b/docs/flow.png
index 11a2b3c..22d4e5f 100644
Binary files a/docs/flow.png and b/docs/flow.png differ
diff --git a/src/checkout/old_money.py b/src/checkout/money.py
similarity index 96%
rename from src/checkout/old_money.py
rename to src/checkout/money.py
"""


def shop(air: MockAirspace) -> None:
    """Four agents and a person; two of them in the same lines, two near each other, history of two hours."""
    air.fly(
        "CLAUDE", {SESSION: [[40, 58]], "src/checkout/cart.py": [[12, 30]], "tests/checkout/test_cart.py": []}
    )
    air.fly(
        "CODEX", {SESSION: [[44, 51]], "src/checkout/money.py": [[1, 9]], "src/auth/session.py": [[5, 8]]}
    )
    air.fly("GEMINI", {"src/search/rank.py": [[80, 120]], "src/search/query.py": [[3, 9]]})
    air.fly("QWEN", {"src/auth/token.py": [[10, 20]], "src/auth/login.py": [[70, 75]]})
    air.fly("ann", {"web/components/Cart.tsx": [[1, 40]], "web/pages/checkout.tsx": []}, person=True)
    air.intents["QWEN"] = ["src/auth/rights.py"]
    same = {
        "text": f"both change lines 44-51 of {SESSION}",
        "path": SESSION,
        "lines": [[44, 51]],
    }
    hazard = {
        "text": "CLAUDE changes Session.renew, which CODEX calls",
        "path": SESSION,
        "other_path": "src/checkout/money.py",
        "symbol": "Session.renew",
    }
    imports = {"text": "src/auth/session.py imports src/auth/token.py", "path": "src/auth/session.py"}
    imports |= {"other_path": "src/auth/token.py"}
    air.links = [
        new_link(
            "CLAUDE",
            "CODEX",
            0.94,
            "resolution",
            overlap=reading(0.9, 1.0, same),
            symbol=reading(0.5, 0.6, hazard),
            merge=reading(1.0, 0.3, {"text": f"a trial merge conflicts in {SESSION}", "path": SESSION}),
            dependency=reading(0.4, 0.15, alone=False),
            tree=reading(0.8, 0.02, alone=False),
        ),
        new_link(
            "CODEX",
            "QWEN",
            0.48,
            "advisory",
            dependency=reading(1.0, 0.4, imports, alone=False),
            tree=reading(0.7, 0.1, alone=False),
            overlap=reading(0.0, 1.0),
        ),
        new_link("CLAUDE", "ann", 0.12, "clear", tree=reading(0.6, 0.2, alone=False)),
        new_link("GEMINI", "ann", 0.05, "clear", tree=reading(0.25, 0.2, alone=False)),
    ]
    now = datetime.now(UTC)
    air.advisories = {
        advisory["id"]: advisory
        for advisory in (
            new_advisory(
                1,
                ["CLAUDE", "CODEX"],
                "resolution",
                risk=0.94,
                files=[SESSION],
                hold=["CLAUDE"],
                steer=["CODEX"],
                reason="HOLD: CLAUDE (3 files committed), STEER: CODEX; nearest free work: #14",
                evidence=[same, hazard],
                answers={
                    "CLAUDE": {
                        "intent": ["src/checkout/cart.py"],
                        "text": "I finish renew() and its tests, then I leave the file.",
                        "message_id": None,
                        "at": stamp(now),
                    }
                },
                deadline_at=stamp(now + timedelta(seconds=95)),
                steering="waiting",
            ),
            new_advisory(
                2,
                ["CODEX", "QWEN"],
                "advisory",
                risk=0.48,
                evidence=[imports],
                files=["src/auth/session.py"],
                opened_at=stamp(now - timedelta(minutes=7)),
                deadline_at=stamp(now + timedelta(seconds=220)),
            ),
            new_advisory(
                3,
                ["CLAUDE", "GEMINI"],
                "resolution",
                evidence=[
                    {"text": "both rewrite rank() in src/search/rank.py", "path": "src/search/rank.py"}
                ],
                opened_at=stamp(now - timedelta(minutes=74)),
                closed_at=stamp(now - timedelta(minutes=66)),
                verdict="averted",
                mark="useful",
                steering="left",
                steer=["GEMINI"],
                hold=["CLAUDE"],
            ),
            new_advisory(
                4,
                ["QWEN", "ann"],
                "advisory",
                evidence=[{"text": "web/pages/checkout.tsx imports src/auth/login.py"}],
                opened_at=stamp(now - timedelta(minutes=100)),
                closed_at=stamp(now - timedelta(minutes=97)),
                outcome=False,
            ),
        )
    }
    air.precision = {"true": 12, "false": 1, "open": 2, "averted": 3, "useful": 4, "noise": 0}
    air.samples = past(air, now)


def past(air: MockAirspace, now: datetime, minutes: int = 130) -> list[Json]:
    """Two hours in which the agents came from elsewhere: a sample every two minutes."""
    rng = random.Random(7)
    starts = {agent: [p + rng.gauss(0, 0.5) for p in at] for agent, at in air.positions.items()}
    made = []
    for minute in range(minutes, 0, -2):
        t = 1 - minute / minutes
        positions = {
            agent: [round(s + (e - s) * t**0.7, 4) for s, e in zip(starts[agent], end, strict=True)]
            for agent, end in air.positions.items()
        }
        hot = 60 <= minute <= 74
        links = [
            {"a": "CLAUDE", "b": "CODEX", "risk": round(0.1 + 0.8 * t**3, 3)},
            {"a": "CLAUDE", "b": "GEMINI", "risk": 0.82 if hot else 0.1},
            {"a": "CODEX", "b": "QWEN", "risk": round(0.2 + 0.28 * t, 3)},
        ]
        for link in links:
            risk = float(str(link["risk"]))
            link["level"] = "resolution" if risk >= 0.7 else "advisory" if risk >= 0.35 else "clear"
        advisories = ["adv-3"] if hot else []
        made.append(
            {"at": stamp(now - timedelta(minutes=minute)), "positions": positions, "links": links}
            | {"advisories": advisories}
        )
    return made


def crowd(air: MockAirspace, files: int = 50_000, agents: int = 50) -> None:
    """Many agents in a big repository, each at 40 files of one place."""
    rng = random.Random(11)
    air.cloud = coordinates(files)
    air.graph = {"files": len(air.cloud), "edges": 3 * len(air.cloud), "failed": [], "building": False}
    paths = list(air.cloud)
    names = [f"AGENT{n:02d}" for n in range(agents)]
    for name in names:
        start = rng.randrange(len(paths) - 40)
        air.fly(name, {path: [[10, 20]] for path in paths[start : start + 40]})
    for n, a in enumerate(names):
        for b in rng.sample(names[n + 1 :], min(3, agents - n - 1)):
            risk = round(rng.random() ** 3, 3)
            level = "resolution" if risk >= 0.7 else "advisory" if risk >= 0.35 else "clear"
            air.links.append(new_link(a, b, risk, level, tree=reading(risk, 1.0)))


def trees(air: MockAirspace) -> None:
    """Worktrees of every sort."""
    air.trees = [
        new_worktree("CLAUDE", ahead=3, behind=2, dirty=True, files=4, insertions=10, deletions=3),
        new_worktree(
            "CODEX",
            ahead=2,
            files=5,
            insertions=88,
            deletions=41,
            merges="conflicts",
            conflicts=[SESSION],
            lines={SESSION: [[40, 58]]},
        ),
        new_worktree(
            "GEMINI", ahead=0, files=0, insertions=0, deletions=0, merges="nothing", landed="4c1d9e2f7a"
        ),
        new_worktree(
            "ann", own=False, branch="ann/cart", path="checkouts/ann", files=2, insertions=31, deletions=0
        ),
    ]
    files = [
        {"path": SESSION, "change": "modified", "insertions": 5, "deletions": 2, "binary": False},
        {
            "path": "src/checkout/refund.py",
            "change": "added",
            "insertions": 4,
            "deletions": 0,
            "binary": False,
        },
        {"path": "docs/flow.png", "change": "modified", "insertions": 0, "deletions": 0, "binary": True},
        {
            "path": "src/checkout/money.py",
            "change": "renamed",
            "insertions": 0,
            "deletions": 0,
            "binary": False,
        },
    ]
    for tree in air.trees:
        branch = {"agent": tree["agent"], "branch": tree["branch"], "base": tree["base"], "truncated": False}
        air.diffs[tree["agent"]] = branch | {"diff": DIFF, "files": files}


def request(number: int = 1, agent: str = "GEMINI", seconds: float = 120, **more: object) -> Json:
    """A permission request as an agent of the Agent Client Protocol makes it."""
    now = datetime.now(UTC)
    return {
        "id": f"ask-{number}",
        "agent": agent,
        "title": f"Write {SESSION}",
        "tool": "edit",
        "command": "",
        "paths": [SESSION],
        "options": [
            {"id": "once", "name": "Allow once", "kind": "allow_once"},
            {"id": "always", "name": "Allow always", "kind": "allow_always"},
            {"id": "no", "name": "Reject", "kind": "reject_once"},
        ],
        "asked_at": stamp(now),
        "deadline_at": stamp(now + timedelta(seconds=seconds)),
        "advisory": None,
    } | more
