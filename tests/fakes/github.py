"""A fake GitHub: the REST calls that relay makes, over a real socket, and signed deliveries of webhooks.

It knows repositories' branches and commits, runs workflows that a test ends, lists pages as GitHub does (`Link`),
sends logs by a redirection to a storage of its own, and refuses as GitHub refuses: by status and words.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.fakes import github_payloads as payloads

Json = dict[str, Any]
REPO, TOKEN, SECRET = "o/r", "ghp_a-token-of-the-test", "It's a Secret to Everybody"
INPUTS = frozenset({"relay_id", "relay_commit"})


@dataclass
class Workflow:
    """A workflow's file on the default branch. `run_name`: its `run-name`."""

    inputs: frozenset[str] = INPUTS
    run_name: str = "relay ${{ inputs.relay_id }}"
    dispatchable: bool = True


@dataclass
class Fault:
    """What comes instead of the next answer to a request that has `path` in its line. `done`: the request is carried
    out before that; `status` 0: the connection is cut."""

    status: int
    body: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    path: str = ""


class FakeGithub:
    """One server with the repository `o/r`. Everything may be changed at any time; `asked` is what was asked."""

    def __init__(self) -> None:
        self.branches: dict[str, str] = {}
        self.commits: set[str] = set()
        self.workflows: dict[str, Workflow] = {"verify.yml": Workflow()}
        self.runs: list[Json] = []
        self.inputs: dict[int, Json] = {}
        self.jobs: dict[int, list[Json]] = {}
        self.logs: dict[int, bytes] = {}
        self.pulls: dict[int, Json] = {}
        self.pull_files: dict[int, list[Json]] = {}
        self.compared: dict[str, list[Json]] = {}
        self.statuses: list[tuple[str, Json]] = []
        self.asked: list[str] = []
        self.tokens: list[str] = []
        self.faults: list[Fault] = []
        #: As a GitHub Enterprise Server that does not know `return_run_details`.
        self.is_old = False
        #: Runs that are not in lists yet.
        self.unlisted: set[int] = set()
        self.began: Callable[[int], None] = lambda run: None
        self.changed = asyncio.Event()
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        app = web.Application(middlewares=[self._guard])
        at = "/repos/{owner}/{repo}"
        app.add_routes(
            [
                web.get(f"{at}/git/commits/{{sha}}", self._commit),
                web.get(f"{at}/compare/{{both:.+}}", self._compare),
                web.get(f"{at}/pulls/{{number}}", self._pull),
                web.get(f"{at}/pulls/{{number}}/files", self._pull_files),
                web.post(f"{at}/actions/workflows/{{file}}/dispatches", self._dispatch),
                web.get(f"{at}/actions/workflows/{{file}}/runs", self._runs),
                web.get(f"{at}/actions/runs/{{id}}", self._run),
                web.get(f"{at}/actions/runs/{{id}}/jobs", self._jobs),
                web.post(f"{at}/actions/runs/{{id}}/cancel", self._cancel),
                web.get(f"{at}/actions/jobs/{{id}}/logs", self._log),
                web.post(f"{at}/statuses/{{sha}}", self._status),
                web.get("/storage/{id}", self._storage),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port: from now on connections are refused."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    # -- what a test does

    def push(self, branch: str, commit: str) -> str:
        """The branch is at this commit now."""
        self.branches[branch] = commit
        self.commits.add(commit)
        return commit

    async def dispatched(self, count: int = 1) -> Json:
        """The newest run, once so many were begun."""
        while len(self.runs) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.runs[-1]

    async def was_asked(self, text: str, times: int = 1) -> None:
        """Wait until so many requests have this text in their line."""
        while sum(text in line for line in self.asked) < times:
            self.changed.clear()
            await self.changed.wait()

    def finish(
        self, id: int, conclusion: str, jobs: Sequence[tuple[str, str]] | None = None, log: str = "it ran"
    ) -> Json:
        """End a run. `jobs`: (name, conclusion); `log`: what each of them printed."""
        run = self._of(id)
        run |= {"status": "completed", "conclusion": conclusion}
        made = jobs if jobs is not None else [("build", conclusion)]
        self.jobs[id] = []
        for number, (name, how) in enumerate(made, 1):
            job = payloads.job(100 * id + number, run, name, how, [("Run tests", how)])
            self.jobs[id].append(job)
            self.logs[job["id"]] = log_text(log, how)
        return run

    async def deliver(
        self,
        url: str,
        event: str,
        payload: Json | bytes,
        *,
        secret: str = SECRET,
        delivery: str | None = None,
        **headers: str,
    ) -> tuple[int, Any]:
        """Send a delivery as GitHub does; the status and the answer. Another header: `X_Hub_Signature_256="..."`; an
        empty one is left out."""
        body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        sent = headers_of(body, event, secret, delivery or str(uuid.uuid4()))
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in sent.items() if value}
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=sent) as answer:
            return answer.status, await answer.json()

    # -- the API

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        self.tokens.append(request.headers.get("Authorization", ""))
        self.changed.set()
        if request.path.startswith("/storage/"):
            return await handler(request)
        fault = next((fault for fault in self.faults if fault.path in request.path_qs), None)
        if fault is not None:
            self.faults.remove(fault)
            if fault.done:
                await handler(request)
            if fault.status == 0:
                assert request.transport is not None
                request.transport.abort()
            return web.json_response(fault.body, status=fault.status or 500, headers=fault.headers)
        if request.headers.get("Authorization") != f"token {TOKEN}":
            return _refused(401, "Bad credentials")
        if f"{request.match_info['owner']}/{request.match_info['repo']}" != REPO:
            return _refused(404, "Not Found")
        response = await handler(request)
        self.changed.set()
        return response

    async def _commit(self, request: web.Request) -> web.Response:
        sha = request.match_info["sha"]
        if sha not in self.commits:
            return _refused(404, "Not Found")
        return web.json_response({"sha": sha, "tree": {"sha": payloads.sha(f"tree of {sha}")}})

    async def _compare(self, request: web.Request) -> web.Response:
        both = request.match_info["both"]
        if both not in self.compared:
            return _refused(404, "Not Found")
        # GitHub names 300 files at most, whatever the page.
        files = self.compared[both][:300]
        return web.json_response({"status": "ahead", "total_commits": 1, "commits": [], "files": files})

    async def _pull(self, request: web.Request) -> web.Response:
        pull = self.pulls.get(int(request.match_info["number"]))
        return _refused(404, "Not Found") if pull is None else web.json_response(pull)

    async def _pull_files(self, request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if number not in self.pull_files:
            return _refused(404, "Not Found")
        return _page(request, self.pull_files[number][:3000])

    async def _dispatch(self, request: web.Request) -> web.Response:
        workflow, told = self.workflows.get(request.match_info["file"]), await request.json()
        ref = told["ref"].removeprefix("refs/heads/")
        inputs = told.get("inputs", {})
        if workflow is None:
            return _refused(404, "Not Found")
        if self.is_old and "return_run_details" in told:
            return _refused(422, 'Invalid request.\n\n"return_run_details" is not a permitted key.')
        if ref not in self.branches:
            return _refused(422, f"No ref found for: {ref}")
        if not workflow.dispatchable:
            return _refused(422, "Workflow does not have 'workflow_dispatch' trigger")
        if unexpected := sorted(set(inputs) - workflow.inputs):
            return _refused(422, f"Unexpected inputs provided: {json.dumps(unexpected)}")
        title = workflow.run_name
        for name, value in inputs.items():
            title = title.replace(f"${{{{ inputs.{name} }}}}", value)
        run = self.begin(title, ref, request.match_info["file"])
        self.inputs[run["id"]] = inputs
        self.began(run["id"])
        if told.get("return_run_details"):
            details = {"workflow_run_id": run["id"], "run_url": run["url"], "html_url": run["html_url"]}
            return web.json_response(details)
        return web.Response(status=204)

    def begin(self, title: str, branch: str, workflow: str = "verify.yml") -> Json:
        """A run of a workflow on a branch begins, whoever wants it."""
        id, head = len(self.runs) + 1, self.branches[branch]
        run = payloads.run(REPO, id, title=title, head=head, branch=branch, workflow=workflow, at=self.url)
        self.runs.append(run)
        return run

    async def _runs(self, request: web.Request) -> web.Response:
        asked, file = request.query, request.match_info["file"]
        found = [
            run
            for run in reversed(self.runs)
            if run["path"].endswith(f"/{file}")
            and asked.get("branch") in (None, run["head_branch"])
            and asked.get("event") in (None, run["event"])
            and run["id"] not in self.unlisted
        ]
        return _page(request, found, "workflow_runs")

    async def _run(self, request: web.Request) -> web.Response:
        run = next((run for run in self.runs if run["id"] == int(request.match_info["id"])), None)
        return _refused(404, "Not Found") if run is None else web.json_response(run)

    async def _jobs(self, request: web.Request) -> web.Response:
        return _page(request, self.jobs.get(int(request.match_info["id"]), []), "jobs")

    async def _cancel(self, request: web.Request) -> web.Response:
        run = self._of(int(request.match_info["id"]))
        if run["status"] == "completed":
            return _refused(409, "Cannot cancel a workflow run that is completed.")
        run |= {"status": "completed", "conclusion": "cancelled"}
        self.jobs[run["id"]] = []
        return web.json_response({}, status=202)

    async def _log(self, request: web.Request) -> web.Response:
        id = int(request.match_info["id"])
        if id not in self.logs:
            return _refused(410, "Gone")
        return web.Response(status=302, headers={"Location": f"{self.url}/storage/{id}?sig=secret"})

    async def _storage(self, request: web.Request) -> web.StreamResponse:
        if "Authorization" in request.headers:
            return web.Response(status=400, text="InvalidAuthenticationInfo")
        return web.Response(body=self.logs[int(request.match_info["id"])], content_type="text/plain")

    async def _status(self, request: web.Request) -> web.Response:
        sha, told = request.match_info["sha"], await request.json()
        if sha not in self.commits:
            return _refused(422, f"No commit found for SHA: {sha}")
        if len(told["description"]) > 140:
            return _refused(422, "Validation Failed")
        self.statuses.append((sha, told))
        return web.json_response({**told, "id": len(self.statuses)}, status=201)

    def _of(self, id: int) -> Json:
        return next(run for run in self.runs if run["id"] == id)


def headers_of(body: bytes, event: str, secret: str, delivery: str) -> dict[str, str]:
    """The headers of a delivery, signed."""
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/1a2b3c4",
        "X-GitHub-Event": event,
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Hook-ID": "109948940",
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def log_text(said: str, conclusion: str) -> bytes:
    """The log of a job as GitHub stores it: a BOM, a time in front of each line, the tidying up behind a failure."""
    lines = ["##[group]Run tests", "##[endgroup]", *said.split("\n")]
    if conclusion == "failure":
        lines.append("##[error]Process completed with exit code 1.")
    lines += ["Post job cleanup.", "[command]/usr/bin/git version", "git version 2.52.0"]
    return b"\xef\xbb\xbf" + "".join(f"2026-01-02T03:04:05.1234567Z {line}\r\n" for line in lines).encode()


def file(name: str, status: str = "modified", previous: str | None = None) -> Json:
    """A file of a pull request or a comparison."""
    told = {"sha": payloads.sha(name), "filename": name, "status": status, "additions": 1, "deletions": 0}
    return told if previous is None else {**told, "previous_filename": previous}


def _page(request: web.Request, entries: Sequence[Json], key: str | None = None) -> web.Response:
    """A page of a list; `Link` leads to the next one, by an address that GitHub chooses."""
    size, number = int(request.query.get("per_page", "30")), int(request.query.get("page", "1"))
    shown = entries[(number - 1) * size : number * size]
    headers = {}
    if number * size < len(entries):
        following = request.url.update_query(page=str(number + 1))
        last = request.url.update_query(page=str(-(-len(entries) // size)))
        headers["Link"] = f'<{following}>; rel="next", <{last}>; rel="last"'
    value: Any = list(shown) if key is None else {"total_count": len(entries), key: list(shown)}
    return web.json_response(value, headers=headers)


def _refused(status: int, message: str) -> web.Response:
    told = {"message": message, "documentation_url": "https://docs.github.com/rest", "status": str(status)}
    return web.json_response(told, status=status)


@pytest.fixture
async def github() -> AsyncIterator[FakeGithub]:
    """A fake that answers, on a free port."""
    fake = FakeGithub()
    await fake.start()
    yield fake
    await fake.stop()
