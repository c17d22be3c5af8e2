"""A change that an agent tells, and how its verification stands, over HTTP; on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay.model import ADMIN, SCOPES, Caller
from relay.store.ports import Tx
from relay.verification import approvals, journal
from relay.verification.policies import Executor
from relay.verification.service import SHOWN
from relay.verification.verification import Outcome, Result, Source, State
from tests.engines import BOTH, check_log
from tests.faces.house import House, house, real_services
from tests.fakes.github_payloads import sha

pytestmark = BOTH

ANN = Caller("ann", "person-ann", "person", person=True, scopes=SCOPES | {ADMIN})
COMMIT, BASE = sha("commit"), sha("base")


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path, services=real_services) as made:
        yield made


async def key(home: House, name: str = "CLAUDE", **more: Any) -> dict[str, str]:
    made = await home.auth.keys.create(ANN, name, **more)
    return {"X-API-Key": made["key"]}


async def tell(home: House, headers: dict[str, str], **body: Any) -> tuple[int, Any]:
    status, told, _ = await home.ask(
        "POST", "/webhook/agent", headers=headers, json={"summary": "I mended it", **body}
    )
    return status, told


async def test_an_agent_tells_a_change(home: House) -> None:
    status, told = await tell(
        home,
        await key(home),
        commit=COMMIT,
        base=BASE,
        branch="relay/claude",
        files=["app.py", "app.py", "src/b.py"],
    )
    assert (status, told["success"], told["state"], told["reference"]) == (200, True, "queued", "v1")
    made = await home.store.read(lambda tx: journal.find(tx, told["changeset_id"]))
    change = made.change
    assert (change.source, change.agent, change.asker) == (Source.AGENT, "CLAUDE", "CLAUDE")
    assert (change.commit, change.base, change.branch) == (COMMIT, BASE, "relay/claude")
    assert (change.files, change.summary) == (("app.py", "src/b.py"), "I mended it")
    await check_log(home.store)


async def test_the_same_delivery_of_an_agent_is_one_changeset(home: House) -> None:
    mine, other = await key(home), await key(home, "BEN")
    told = await asyncio.gather(*(tell(home, mine, delivery_id="d:1") for _ in range(10)))
    assert len({one["changeset_id"] for _, one in told}) == 1
    assert sum("repeated" not in one for _, one in told) == 1
    for headers, delivery in ((other, "d:1"), (mine, "1"), (mine, None), (mine, None)):
        assert "repeated" not in (await tell(home, headers, delivery_id=delivery))[1]
    verifications = await home.store.read(lambda tx: journal.newest_verifications(tx, 100))
    assert len(verifications) == 5


async def test_an_agent_speaks_for_itself(home: House) -> None:
    mine = await key(home)
    status, told = await tell(home, mine, agent_id="BEN")
    assert (status, told["reason"]) == (403, "foreign_identity")
    assert (await tell(home, mine, agent_id="CLAUDE"))[0] == 200
    status, told = await tell(home, await key(home, "DOT", scopes=["read"]))
    assert (status, told["reason"], told["scope"]) == (403, "scope", "work")
    async with home.client.post("/webhook/agent", json={"summary": "x"}) as response:
        assert response.status == 401
    made = await home.store.read(lambda tx: journal.newest_verifications(tx, 10))
    assert [one.change.agent for one in made] == ["CLAUDE"]


async def test_a_task_is_the_callers_own(home: House) -> None:
    mine, other = await key(home), await key(home, "BEN")
    task = {"task_type": "t", "task_description": "mend it"}
    _, made, _ = await home.ask("POST", "/work/submit", json=task)
    status, told = await tell(home, mine, task_id=made["task_id"])
    assert (status, told["reason"]) == (403, "not_yours") and "nobody has it" in told["message"]
    await home.ask("POST", "/work/claim", headers=mine, json={"task_id": made["task_id"]})
    for name in (made["task_id"], "1", "#1"):
        status, told = await tell(home, mine, task_id=name)
        assert status == 200
        found = await home.store.read(lambda tx, told=told: journal.find(tx, told["changeset_id"]))
        assert found.change.task == made["task_id"]
    assert (await tell(home, other, task_id=made["task_id"]))[0] == 403
    assert (await tell(home, {}, task_id=made["task_id"]))[0] == 200, "a person's word"
    assert (await tell(home, mine, task_id="99"))[0] == 404


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"summary": ""}, "summary"),
        ({"summary": "x" * 1001}, "summary"),
        ({"commit": "HEAD"}, "commit"),
        ({"commit": COMMIT[:12]}, "commit"),
        ({"base": "--output=/tmp/x"}, "base"),
        ({"branch": "-x"}, "branch"),
        ({"files": ["a"] * 1001}, "files"),
        ({"files": [""]}, "files[0]"),
        ({"files": ["a\0b"]}, "files[0]"),
        ({"delivery_id": ""}, "delivery_id"),
        ({"state": "passed"}, "Unknown field 'state'"),
    ],
)
async def test_what_cannot_be_is_refused(home: House, body: dict[str, Any], says: str) -> None:
    status, told = await tell(home, await key(home), **body)
    assert status == 400 and says in told["message"]
    assert await home.store.read(lambda tx: journal.newest_verifications(tx, 10)) == []


async def failed(home: House, changeset: str) -> None:
    """The verification fails by one policy, and another one waits for a person."""

    async def work(tx: Tx) -> None:
        found = await journal.find(tx, changeset)
        result = Result(
            found.number,
            "unit",
            1,
            1,
            Executor.INLINE,
            "d",
            "t",
            Outcome.FAILED,
            exit_code=2,
            head="a.py:3: no",
        )
        await journal.routed(tx, found, [result])
        await approvals.ask(tx, found, ["review"], ["auth/x.py"], 60.0)
        await journal.end(tx, found, State.FAILED, "unit failed (exit code 2).")

    await home.store.write(work)


async def test_the_status_of_a_changeset(home: House) -> None:
    mine = await key(home)
    _, told = await tell(home, mine, commit=COMMIT)
    await failed(home, told["changeset_id"])
    for name in (told["changeset_id"], "v1", "1"):
        status, shown, _ = await home.ask("GET", f"/status/{name}", headers=mine)
        assert status == 200 and shown["changeset_id"] == told["changeset_id"]
    assert (shown["state"], shown["reason"]) == ("failed", "unit failed (exit code 2).")
    assert shown["results"][0]["output"] == "a.py:3: no"
    assert (shown["approvals"][0]["reference"], shown["approvals"][0]["policies"]) == ("a1", ["review"])
    for name in ("v99", "m1", "00000000-0000-7000-8000-000000000000", "x"):
        status, refused, _ = await home.ask("GET", f"/status/{name}", headers=mine)
        assert (status, refused["success"]) == (404, False), name


async def test_a_look_is_short_and_shows_the_callers_own(home: House) -> None:
    mine, other = await key(home), await key(home, "BEN")
    for number in range(SHOWN + 2):
        _, told = await tell(home, mine, summary=f"step {number}")
    await tell(home, other)
    await failed(home, told["changeset_id"])
    status, looked, _ = await home.ask("GET", "/verification", headers=mine)
    assert status == 200 and [one["summary"] for one in looked["verifications"]][:2] == ["step 6", "step 5"]
    assert len(looked["verifications"]) == SHOWN
    newest = looked["verifications"][0]
    assert (newest["state"], newest["lines"], newest["waits_for"]) == ("failed", "a.py:3: no", ["a1"])
    assert newest["results"] == [{"policy": "unit", "state": "failed", "reason": ""}]
    _, one, _ = await home.ask("GET", f"/verification?changeset_id={told['changeset_id']}", headers=other)
    assert one["verifications"] == [newest]
    assert (await home.ask("GET", "/verification?changeset_id=v99", headers=mine))[0] == 404
