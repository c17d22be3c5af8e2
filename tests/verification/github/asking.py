"""What asks the fake GitHub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from relay.config.verification import GithubSettings
from relay.git.run import Git
from relay.verification.executors.executor import Run
from relay.verification.github.client import Github
from relay.verification.policies import Executor, Policy
from relay.verification.verification import Change, Source
from tests.fakes.github import REPO, TOKEN, FakeGithub
from tests.fakes.github_payloads import sha

ENVIRON = {"GITHUB_TOKEN": TOKEN}
HEAD = sha("head")
RELAY_ID = "019a0b1c-0000-7000-8000-00000000000a-unit-1"


def settings(fake: FakeGithub, **more: Any) -> GithubSettings:
    return GithubSettings(**{"repo": REPO, "api": fake.url, "poll_s": 0.1, **more})


def client(fake: FakeGithub, environ: Mapping[str, str] = ENVIRON, **more: Any) -> Github:
    now = settings(fake, **more)
    return Github(lambda: now, environ, pauses=(0.01, 0.01))


def run(**more: Any) -> Run:
    """A run of `verify.yml` on the head of `main`. Fields of the run, its policy's `timeout_s` and `workflow`, and
    fields of its change."""
    policy = Policy("unit", 1, Executor.GITHUB, ("*",), workflow="verify.yml", timeout_s=60.0)
    policy = replace(policy, **{name: more.pop(name) for name in ("timeout_s", "workflow") if name in more})
    own = {name: more.pop(name) for name in ("id", "resumed", "watch") if name in more}
    change = Change("c-1", Source.GITHUB, "github:ann", "github:ann", "main", HEAD)
    change = replace(change, **more)
    return Run(**{"id": RELAY_ID, **own}, policy=policy, change=change, tree="", argv=(), git=Git(Path("/")))
