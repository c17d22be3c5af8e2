"""Deliveries of GitHub's over HTTP: who may send them, what each becomes, and hostile ones; on both stores."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import pytest

from relay.faces.http.requests.limits import Limits, Rate
from relay.faces.http.routes.webhooks import GithubWebhooks
from relay.verification import journal
from relay.verification.github.webhook import FORM, MOST_BYTES, RunOver
from relay.verification.verification import Source, State, Verification
from tests.engines import BOTH, SQLITE, all_events, check_log
from tests.faces.house import CONFIG, House, house
from tests.fakes import github_payloads as payloads
from tests.fakes.github import REPO, SECRET, FakeGithub, headers_of
from tests.fakes.github_payloads import commit, sha

pytestmark = BOTH

AFTER, BEFORE = sha("after"), sha("before")
RELAY_ID = "019a0b1c-0000-7000-8000-00000000000a-unit-tests-1"
#: Nobody is refused for asking often, where a test does not want it.
FREE = replace(Limits(), refused=Rate(10_000, 10_000))


class Waiting:
    """Who waits for one run; `told` is what it was told."""

    def __init__(self) -> None:
        self.told: list[RunOver] = []

    def wake(self, over: RunOver) -> bool:
        self.told.append(over)
        return over.relay_id == RELAY_ID or over.run == 7


@pytest.fixture
def waiting() -> Waiting:
    return Waiting()


@pytest.fixture
async def home(tmp_path: Path, waiting: Waiting) -> AsyncIterator[House]:
    environ = {"RELAY_GITHUB_SECRET": SECRET}
    async with house(
        tmp_path,
        limits=FREE,
        webhooks=lambda store, live: GithubWebhooks(store, live, FREE, waiting.wake, environ=environ),
    ) as made:
        yield made


async def deliver(home: House, event: str, payload: Any, **more: Any) -> tuple[int, Any]:
    return await FakeGithub().deliver(f"http://{home.at}/webhook/github", event, payload, **more)


async def stored(home: House) -> list[Verification]:
    return await home.store.read(lambda tx: journal.newest_verifications(tx, 1000))


def a_push(*files: str, **more: Any) -> Any:
    return payloads.push(REPO, [commit(AFTER, "Mend it", modified=files or ("app.py",))], **more)


# -- what each becomes


async def test_a_push_is_queued(home: House) -> None:
    status, told = await deliver(home, "push", a_push("app.py", "b.py"))
    (made,) = await stored(home)
    assert (status, told) == (
        202,
        {
            "success": True,
            "changeset_id": made.change.id,
            "number": 1,
            "reference": "v1",
            "state": "queued",
        },
    )
    change = made.change
    assert (made.state, change.source, change.files) == (State.QUEUED, Source.GITHUB, ("app.py", "b.py"))
    assert (change.commit, change.base, change.branch) == (AFTER, BEFORE, "main")
    asked = (await all_events(home.store, journal.ASKED))[0]
    assert asked.outputs["changeset_id"] == change.id and asked.outputs["about"] == dict(change.about)
    await check_log(home.store)


async def test_a_pull_request_is_queued_with_files_to_look_up(home: House) -> None:
    payload = payloads.pull_request(REPO, 4, AFTER, BEFORE)
    assert (await deliver(home, "pull_request", payload))[0] == 202
    (made,) = await stored(home)
    assert (made.change.files, made.change.about["github"]["number"]) == (None, 4)


async def test_what_is_ignored_says_why(home: House) -> None:
    for event, payload, why in (
        ("ping", payloads.ping(REPO), "reaches this room"),
        ("star", {"action": "created"}, "'star'"),
        ("push", a_push(ref="refs/tags/v1"), "not a branch"),
        ("push", payloads.push(REPO, [], after=payloads.ZEROS), "was deleted"),
        ("pull_request", payloads.pull_request(REPO, 4, AFTER, BEFORE, action="closed"), "'closed'"),
    ):
        status, told = await deliver(home, event, payload)
        assert (status, told["success"]) == (200, True) and why in told["ignored"]
    assert await stored(home) == []


async def test_another_repository_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_GITHUB_SECRET", SECRET)
    text = json.dumps(json.loads(CONFIG) | {"verification": {"github": {"repo": "o/other"}}})
    async with house(tmp_path, text=text) as home:
        status, told = await deliver(home, "push", a_push())
        assert status == 200 and "this room is about o/other" in told["ignored"]


async def test_the_end_of_a_run_wakes_who_waits(home: House, waiting: Waiting) -> None:
    run = payloads.run(REPO, 7, title=f"relay {RELAY_ID}", head=AFTER, conclusion="success")
    other = payloads.run(REPO, 8, title="Mend it", head=AFTER, conclusion="success")
    assert await deliver(home, "workflow_run", payloads.workflow_run(REPO, run)) == (
        200,
        {"success": True, "run": RELAY_ID},
    )
    check = payloads.check_run(REPO, run, "build")
    assert await deliver(home, "check_run", check) == (200, {"success": True, "run": "7"})
    status, told = await deliver(home, "workflow_run", payloads.workflow_run(REPO, other))
    assert (status, told) == (200, {"success": True, "ignored": "nobody here waits for this run"})
    assert waiting.told == [
        RunOver(RELAY_ID, 7, "success"),
        RunOver(None, 7, "success"),
        RunOver(None, 8, "success"),
    ]


async def test_a_form_is_taken_as_well(home: House) -> None:
    body = urlencode({"payload": json.dumps(a_push())}).encode()
    assert (await deliver(home, "push", body, Content_Type=FORM))[0] == 202


# -- twice, and in any order


async def test_a_delivery_that_comes_twice_is_one_changeset(home: House) -> None:
    delivery = str(uuid.uuid4())
    first = (await deliver(home, "push", a_push(), delivery=delivery))[1]
    status, told = await deliver(home, "push", a_push(), delivery=delivery)
    assert (status, told) == (202, {**first, "repeated": True})
    # GitHub sends another delivery of the same push only where there are two webhooks.
    assert (await deliver(home, "push", a_push()))[1]["number"] == 2


async def test_the_same_delivery_many_times_at_once(home: House) -> None:
    delivery = str(uuid.uuid4())
    told = await asyncio.gather(*(deliver(home, "push", a_push(), delivery=delivery) for _ in range(20)))
    assert {status for status, _ in told} == {202}
    assert len({one["changeset_id"] for _, one in told}) == 1
    assert sum("repeated" not in one for _, one in told) == 1
    assert len(await stored(home)) == 1
    assert len(await all_events(home.store, journal.ASKED)) == 1


async def test_a_hundred_at_once(home: House) -> None:
    told = await asyncio.gather(*(deliver(home, "push", a_push(f"{number}.py")) for number in range(100)))
    assert sorted(one["number"] for _, one in told) == list(range(1, 101))
    assert len({made.change.files for made in await stored(home)}) == 100
    await check_log(home.store)


async def test_deliveries_in_another_order(home: House, waiting: Waiting) -> None:
    """The end of a run before the push that it is about, a later commit of a pull request before its opening, and the
    check of a job behind the end of its run."""
    run = payloads.run(REPO, 7, title=f"relay {RELAY_ID}", head=AFTER, conclusion="success")
    deliveries = [
        ("workflow_run", payloads.workflow_run(REPO, run)),
        ("check_run", payloads.check_run(REPO, run, "build")),
        ("push", a_push()),
        ("pull_request", payloads.pull_request(REPO, 4, AFTER, BEFORE, action="synchronize")),
        ("pull_request", payloads.pull_request(REPO, 4, sha("first"), BEFORE)),
    ]
    for event, payload in deliveries:
        assert (await deliver(home, event, payload))[0] in (200, 202)
    assert [made.change.commit for made in await stored(home)] == [sha("first"), AFTER, AFTER]
    assert len(waiting.told) == 2


# -- who may send them


async def test_without_a_valid_signature_nothing_is_taken(home: House) -> None:
    body = json.dumps(a_push()).encode()
    other = headers_of(b"another body", "push", SECRET, "d")["X-Hub-Signature-256"]
    for more in (
        {"secret": "guessed"},
        {"secret": ""},
        {"X_Hub_Signature_256": ""},
        {"X_Hub_Signature_256": other},
        {"X_Hub_Signature_256": "sha256="},
        {"X_Hub_Signature_256": "sha256=" + "0" * 64},
        {"X_Hub_Signature_256": "", "X_Hub_Signature": "sha1=" + "0" * 40},
        {"X_Hub_Signature_256": "", "X_API_Key": home.token},
    ):
        status, told = await deliver(home, "push", body, **more)
        assert (status, told["success"], told["reason"]) == (401, False, "no_credential"), more
        assert "RELAY_GITHUB_SECRET" in told["fix"] and SECRET not in json.dumps(told)
    assert await stored(home) == [] and await all_events(home.store) == []


async def test_a_room_without_a_secret_takes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAY_GITHUB_SECRET", raising=False)
    monkeypatch.setenv("MY_SECRET", "")
    text = json.dumps(json.loads(CONFIG) | {"verification": {"github": {"secret_env": "MY_SECRET"}}})
    async with house(tmp_path, text=text) as home:
        for secret in ("", SECRET):
            status, told = await deliver(home, "push", a_push(), secret=secret)
            assert status == 401 and "no secret" in told["message"]
            assert "Set MY_SECRET in the room's environment" in told["fix"]


@SQLITE
async def test_who_guesses_often_is_told_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_GITHUB_SECRET", SECRET)
    async with house(tmp_path, limits=replace(Limits(), refused=Rate(0.001, 3))) as home:
        told = [(await deliver(home, "push", a_push(), secret=f"guess {n}"))[0] for n in range(5)]
        assert told == [401, 401, 401, 429, 429]
        assert (await deliver(home, "push", a_push()))[0] == 202, "whoever has the secret is not kept out"


@SQLITE
async def test_a_foreign_host_name_is_refused(home: House) -> None:
    assert (await deliver(home, "push", a_push(), Host="evil.example.com"))[0] == 403


# -- what is none


@SQLITE
async def test_a_delivery_of_another_shape_names_the_field(home: House) -> None:
    wrong = a_push() | {"after": "main"}
    for payload, says in (
        (wrong, "after is no id of git's."),
        ({}, "repository is not an object."),
        ([], "The payload is not an object."),
        (b"{", "The payload is not JSON in UTF-8"),
        (b"", "The payload is not JSON in UTF-8"),
    ):
        status, told = await deliver(home, "push", payload)
        assert (status, told["reason"]) == (400, "bad_payload") and told["message"].startswith(says)
    for name in ("X_GitHub_Event", "X_GitHub_Delivery"):
        status, told = await deliver(home, "push", a_push(), **{name: ""})
        assert status == 400 and name.replace("_", "-") in told["message"]
    status, told = await deliver(home, "push", a_push(), X_GitHub_Delivery="x" * 201)
    assert status == 400
    assert await stored(home) == []


@SQLITE
async def test_the_largest_delivery_is_taken_and_no_larger_one(home: House) -> None:
    payload = a_push() | {"padding": ""}
    payload["padding"] = "x" * (MOST_BYTES - len(json.dumps(payload).encode()))
    body = json.dumps(payload).encode()
    assert len(body) == MOST_BYTES
    assert (await deliver(home, "push", body))[0] == 202
    assert (await deliver(home, "push", body, secret="guessed"))[0] == 401
    status, told = await deliver(home, "push", body + b" ")
    assert (status, told["reason"]) == (413, "too_large")
    assert len(await stored(home)) == 1


@SQLITE
async def test_many_large_deliveries_at_once(home: House) -> None:
    """Commits with many files, in chunks of no known length, beside forged ones; small ones come through."""
    commits = [
        commit(AFTER, modified=[f"src/{number}/{file}.py" for file in range(2000)]) for number in range(20)
    ]
    body = json.dumps(payloads.push(REPO, commits)).encode()

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(body), 100_000):
            yield body[at : at + 100_000]

    async def send(secret: str) -> int:
        async with aiohttp.ClientSession() as session:
            headers = headers_of(body, "push", secret, str(uuid.uuid4()))
            url = f"http://{home.at}/webhook/github"
            async with session.post(url, data=chunks(), headers=headers) as answer:
                return answer.status

    told = await asyncio.gather(
        *(send(SECRET) for _ in range(6)),
        *(send("guessed") for _ in range(6)),
        *(deliver(home, "push", a_push()) for _ in range(6)),
    )
    assert told[:6] == [202] * 6 and told[6:12] == [401] * 6
    assert [one[0] for one in told[12:]] == [202] * 6  # type: ignore[index]
    assert max(len(made.change.files or ()) for made in await stored(home)) == 40_000
