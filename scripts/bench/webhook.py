"""How long GitHub waits for the room: from a delivery to the answer that its change is queued, over a real daemon.

`python -m scripts.bench.webhook`. The target, 50 ms at p95, is the issue's; GitHub itself gives up after 10 s. Each
delivery is a push of three commits with its real shape, signed, on a connection that is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from scripts.bench import postgres_server as postgres
from scripts.bench.figures import Figure, at_most, run, spread, stopwatch, unmeasured
from scripts.bench.room_daemon import Daemon, running

AT_ONCE = 20

#: What its deliveries are signed with.
SECRET = "of the bench"


def measure(folder: Path, quick: bool) -> Iterator[Figure]:
    count = 20 if quick else 2_000
    os.environ["RELAY_GITHUB_SECRET"] = SECRET
    with ExitStack() as stack:
        settings: dict[str, Any] = {"dispatcher": {"enabled": False}}
        rooms = {"SQLite": stack.enter_context(running(folder / "sqlite", settings))}
        programs = postgres.binaries()
        if programs is not None:
            server = postgres.make_server(programs, {"listen_addresses": ""})
            stack.callback(server.end)
            place = folder / "postgres"
            place.mkdir()
            (place / "dsn").touch(mode=0o600)
            (place / "dsn").write_text(server.dsn(server.new_database()))
            stored = {**settings, "storage": "postgres", "postgres": {"dsn_file": "dsn"}}
            rooms["PostgreSQL"] = stack.enter_context(running(place, stored))
        else:
            yield unmeasured("webhooks on PostgreSQL", postgres.LACKING)
        for name, daemon in rooms.items():
            yield from of_room(name, daemon, count)


def of_room(name: str, daemon: Daemon, count: int) -> Iterable[Figure]:
    limits = at_most(p95=50)
    push = json.dumps(a_push(3)).encode()
    note = f"a delivery of {len(push) / 1000:.1f} kB"
    yield spread(f"webhook to queued, {name}", deliver(daemon, push, count), limits=limits, note=note)
    with ThreadPoolExecutor(AT_ONCE) as callers:
        each = [callers.submit(deliver, daemon, push, max(1, count // AT_ONCE)) for _ in range(AT_ONCE)]
        took = [sample for one in each for sample in one.result()]
    yield spread(f"webhook to queued, {name}, {AT_ONCE} at once", took, note=f"{note}; writers take turns")
    again = deliver(daemon, push, count, delivery=str(uuid.uuid4()))
    yield spread(f"webhook that came before, {name}", again, limits=limits, note=note)
    large = json.dumps(a_push(600)).encode()
    took = deliver(daemon, large, max(5, count // 40))
    yield spread(f"webhook to queued, {name}, large", took, note=f"a delivery of {len(large) / 1e6:.1f} MB")


def signed(body: bytes, delivery: str) -> dict[str, str]:
    """The headers of a push, as GitHub signs it."""
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-GitHub-Event": "push",
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def a_push(commits: int) -> Any:
    """A push of so many commits, each of 10 files."""
    # GitHub's own shape stands with the tests; only a run needs it.
    from tests.fakes import github_payloads as payloads

    made = [
        payloads.commit(
            payloads.sha(str(number)),
            f"Step {number}",
            modified=[f"src/package{number % 9}/module{file}.py" for file in range(10)],
        )
        for number in range(commits)
    ]
    return payloads.push("o/r", made)


def deliver(daemon: Daemon, body: bytes, count: int, delivery: str | None = None) -> list[float]:
    """Seconds of each delivery until its answer was read. Raises when one is not queued."""
    took: list[float] = []
    with closing(http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)) as connection:
        for _ in range(count):
            headers = signed(body, delivery or str(uuid.uuid4()))
            with stopwatch(took):
                connection.request("POST", "/webhook/github", body, headers)
                answer = connection.getresponse()
                told = json.loads(answer.read())
            if answer.status != 202:
                raise RuntimeError(f"it was not queued: {answer.status} {told}")
    return took


if __name__ == "__main__":
    sys.exit(run("webhook", measure, "How long GitHub waits for the room."))
