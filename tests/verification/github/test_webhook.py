"""What a delivery means, in GitHub's shapes, and what is refused of one that is none."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from relay.model import Fault, Refusal
from relay.verification.github import webhook
from relay.verification.github.webhook import FORM, Ignored, RunOver, is_signed, parse, read_body
from relay.verification.verification import Change, Source
from tests.fakes import github_payloads as payloads
from tests.fakes.github import REPO, SECRET, headers_of
from tests.fakes.github_payloads import commit, sha

RELAY_ID = "019a0b1c-0000-7000-8000-00000000000a-unit-tests-1"
AFTER, BEFORE = sha("after"), sha("before")


def told(event: str, payload: Any, repo: str | None = None) -> Change | RunOver | Ignored:
    return parse(event, "d-1", payload, "c-1", repo)


def change(event: str, payload: Any) -> Change:
    made = told(event, payload)
    assert isinstance(made, Change), made
    return made


def ignored(event: str, payload: Any, repo: str | None = None) -> str:
    made = told(event, payload, repo)
    assert isinstance(made, Ignored), made
    return made.why


# -- signatures


def test_a_signature_is_that_of_the_body_and_the_secret() -> None:
    """With the values of GitHub's documentation of webhooks ("Testing the webhook payload validation")."""
    signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert is_signed("It's a Secret to Everybody", b"Hello, World!", signature)
    for secret, body, said in (
        ("It's a Secret to Everybody", b"Hello, World?", signature),
        ("another secret", b"Hello, World!", signature),
        ("It's a Secret to Everybody", b"Hello, World!", signature.upper()),
        ("It's a Secret to Everybody", b"Hello, World!", ""),
        ("It's a Secret to Everybody", b"Hello, World!", "sha256="),
        ("It's a Secret to Everybody", b"Hello, World!", "sha1=757107ea"),
        ("It's a Secret to Everybody", b"Hello, World!", "sha256=\udce4"),
    ):
        assert not is_signed(secret, body, said)
    assert is_signed(SECRET, b"x", headers_of(b"x", "push", SECRET, "d")["X-Hub-Signature-256"])


# -- bodies


def test_a_body_is_json_or_a_form_with_json() -> None:
    body = json.dumps({"ref": "ä & b"}).encode()
    assert read_body(body, "application/json") == {"ref": "ä & b"}
    assert read_body(urlencode({"payload": body.decode()}).encode(), FORM) == {"ref": "ä & b"}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", "application/json"),
        (b"\xff{}", "application/json"),
        (b"{", "application/json"),
        (b"[" * 200_000, "application/json"),
        (b"other=1", FORM),
        (b"payload=%7B", FORM),
        (b"payload=1&payload=2", FORM),
    ],
)
def test_a_body_that_is_none_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(Refusal, match="not JSON in UTF-8") as refused:
        read_body(body, kind)
    assert (refused.value.fault, refused.value.code) == (Fault.MALFORMED, "bad_payload")


# -- pushes


def test_a_push_is_a_change_of_all_its_commits_files() -> None:
    first = commit(sha("one"), added=["new.py"], modified=["app.py"])
    last = commit(AFTER, "Mend it\n\nAll of it.", modified=["app.py"], removed=["old.py"])
    made = change("push", payloads.push(REPO, [first, last], ref="refs/heads/feature/total", by="octocat"))
    assert (made.source, made.id, made.commit, made.base) == (Source.GITHUB, "c-1", AFTER, BEFORE)
    assert made.files == ("new.py", "app.py", "old.py")
    assert (made.tree, made.branch, made.summary) == (last["tree_id"], "feature/total", "Mend it")
    assert (made.agent, made.asker) == ("github:octocat", "github:octocat")
    about = made.about["github"]
    assert (about["repo"], about["ref"], about["event"]) == (REPO, "refs/heads/feature/total", "push")
    assert about["delivery"] == "d-1" and about["url"].startswith("https://github.com/o/r/compare/")


def test_the_first_push_of_a_branch_has_no_base() -> None:
    made = change("push", payloads.push(REPO, [commit(AFTER, added=["a"])], before=payloads.ZEROS))
    assert (made.base, made.about["github"]["default_branch"]) == (None, "main")


@pytest.mark.parametrize(
    "commits",
    [
        pytest.param([], id="a branch of commits that are there"),
        pytest.param([commit(AFTER)], id="GitHub could not list a very large commit"),
        pytest.param([commit(sha("one"), added=["a"]), commit(AFTER)], id="one of two"),
        pytest.param(
            [commit(AFTER, added=[f"{number}.py" for number in range(3000)])], id="a list that was cut"
        ),
        pytest.param(
            [commit(sha(str(number)), added=["a"]) for number in range(2048)],
            id="more commits than are listed",
        ),
        pytest.param([{**commit(AFTER, added=["a"]), "removed": None}], id="a list is missing"),
    ],
)
def test_files_that_may_not_be_all_are_not_known(commits: list[Any]) -> None:
    assert change("push", payloads.push(REPO, commits, after=AFTER)).files is None


def test_a_size_above_the_list_says_that_it_was_cut() -> None:
    payload = payloads.push(REPO, [commit(AFTER, added=["a"])])
    assert change("push", payload).files == ("a",)
    assert change("push", payload | {"size": 1}).files == ("a",)
    assert change("push", payload | {"size": 9}).files is None


def test_what_is_no_branch_or_is_gone_is_ignored() -> None:
    some = [commit(AFTER, added=["a"])]
    assert "not a branch" in ignored("push", payloads.push(REPO, some, ref="refs/tags/v1"))
    assert "was deleted" in ignored("push", payloads.push(REPO, [], after=payloads.ZEROS))


# -- pull requests


@pytest.mark.parametrize("action", webhook.NEW_WORK)
def test_a_pull_request_is_a_change_whose_files_are_not_known_yet(action: str) -> None:
    made = change("pull_request", payloads.pull_request(REPO, 12, AFTER, BEFORE, action=action, by="ben"))
    assert (made.commit, made.base, made.files, made.tree) == (AFTER, BEFORE, None, None)
    assert (made.branch, made.summary, made.agent) == ("topic", "A better total", "github:ben")
    about = made.about["github"]
    assert (about["number"], about["action"], about["base_branch"]) == (12, action, "main")
    assert "fork" not in about


def test_other_actions_of_a_pull_request_are_ignored() -> None:
    for action in ("closed", "labeled", "edited", "assigned", "converted_to_draft", "review_requested"):
        payload = payloads.pull_request(REPO, 12, AFTER, BEFORE, action=action)
        assert action in ignored("pull_request", payload)


def test_a_fork_is_named() -> None:
    for repo, fork in (("eve/r", "eve/r"), (None, "a fork that is gone")):
        payload = payloads.pull_request(REPO, 12, AFTER, BEFORE, head_repo=repo)
        assert change("pull_request", payload).about["github"]["fork"] == fork
    payload = payloads.pull_request(REPO, 12, AFTER, BEFORE, head_repo="O/R")
    assert "fork" not in change("pull_request", payload).about["github"]


# -- runs


def test_a_run_that_is_over_is_known_by_our_id() -> None:
    run = payloads.run(REPO, 7, title=f"relay {RELAY_ID} of ann", head=AFTER, conclusion="failure")
    assert told("workflow_run", payloads.workflow_run(REPO, run)) == RunOver(RELAY_ID, 7, "failure")
    run |= {"display_title": "Mend it", "name": f"[{RELAY_ID}]"}
    assert told("workflow_run", payloads.workflow_run(REPO, run)) == RunOver(RELAY_ID, 7, "failure")
    for title in ("Mend it", RELAY_ID.upper(), "x" + RELAY_ID, ""):
        run |= {"display_title": title, "name": "verify"}
        assert told("workflow_run", payloads.workflow_run(REPO, run)) == RunOver(None, 7, "failure")
    for action in ("requested", "in_progress"):
        assert action in ignored("workflow_run", payloads.workflow_run(REPO, run, action))


def test_a_check_of_a_job_leads_to_its_run() -> None:
    run = payloads.run(REPO, 7, title="relay", head=AFTER)
    assert told("check_run", payloads.check_run(REPO, run, "build")) == RunOver(None, 7, "success")
    named = payloads.check_run(REPO, run, f"build {RELAY_ID}", "failure")
    assert told("check_run", named) == RunOver(RELAY_ID, 7, "failure")
    named["check_run"]["details_url"] = "https://ci.example.com/actions/runs/x"
    assert told("check_run", named) == RunOver(RELAY_ID, None, "failure")
    assert "created" in ignored("check_run", payloads.check_run(REPO, run, "build", action="created"))


# -- what else comes


def test_a_ping_and_other_events_are_ignored() -> None:
    assert "reaches this room" in ignored("ping", payloads.ping(REPO))
    assert "'star'" in ignored("star", {"action": "created"})


def test_another_repository_is_ignored() -> None:
    payload = payloads.push(REPO, [commit(AFTER, added=["a"])])
    assert "this room is about other/one" in ignored("push", payload, "other/one")
    assert isinstance(told("push", payload, "O/R"), Change)


_GONE = object()


@pytest.mark.parametrize(
    ("event", "place", "value", "says"),
    [
        ("push", ["ref"], _GONE, "ref is missing"),
        ("push", ["ref"], 7, "ref is not a text"),
        ("push", ["after"], "main", "after is no id of git's"),
        ("push", ["before"], "--output=x", "before is no id of git's"),
        ("push", ["deleted"], "false", "deleted is not true or false"),
        ("push", ["forced"], None, "forced is not true or false"),
        ("push", ["commits"], {}, "commits is not a list"),
        ("push", ["commits", 0], "x", "commits[0] is not an object"),
        ("push", ["commits", 0, "added"], "a.py", "commits[0].added is not a list"),
        ("push", ["commits", 0, "added", 0], None, "commits[0].added[0] is not a text"),
        ("push", ["commits", 0, "added", 0], "a\0b", "commits[0].added[0] has the character NUL"),
        ("push", ["commits", 0, "added", 0], "\ud800", "commits[0].added[0] has an unpaired surrogate"),
        ("push", ["head_commit", "tree_id"], _GONE, "head_commit.tree_id is missing"),
        ("push", ["head_commit", "message"], [], "head_commit.message is not a text"),
        ("push", ["repository"], _GONE, "repository is not an object"),
        ("push", ["repository", "full_name"], None, "repository.full_name is missing"),
        ("push", ["pusher"], None, "pusher is not an object"),
        ("push", ["sender", "login"], _GONE, "sender.login is missing"),
        ("pull_request", ["action"], _GONE, "action is missing"),
        ("pull_request", ["pull_request", "number"], "12", "pull_request.number is not a whole number"),
        ("pull_request", ["pull_request", "head", "sha"], "HEAD", "pull_request.head.sha is no id of git's"),
        ("pull_request", ["pull_request", "base"], [], "pull_request.base is not an object"),
        ("workflow_run", ["workflow_run", "id"], True, "workflow_run.id is not a whole number"),
        ("check_run", ["check_run", "name"], None, "check_run.name is missing"),
    ],
)
def test_a_wrong_field_is_named(event: str, place: list[Any], value: Any, says: str) -> None:
    run = payloads.run(REPO, 7, title="relay", head=AFTER)
    payload: Any = {
        "push": payloads.push(REPO, [commit(AFTER, added=["a.py"])]),
        "pull_request": payloads.pull_request(REPO, 12, AFTER, BEFORE),
        "workflow_run": payloads.workflow_run(REPO, run),
        "check_run": payloads.check_run(REPO, run, "build"),
    }[event]
    payload = json.loads(json.dumps(payload))
    at = payload
    for step in place[:-1]:
        at = at[step]
    if value is _GONE:
        del at[place[-1]]
    else:
        at[place[-1]] = value
    with pytest.raises(Refusal) as refused:
        told(event, payload)
    assert refused.value.message == f"{says}."
    assert (refused.value.fault, refused.value.code) == (Fault.MALFORMED, "bad_payload")


@pytest.mark.parametrize("payload", [None, [], "push", 7])
def test_a_payload_that_is_no_object_is_refused(payload: Any) -> None:
    with pytest.raises(Refusal, match="The payload is not an object"):
        told("push", payload)
