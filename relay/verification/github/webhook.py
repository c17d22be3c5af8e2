"""What GitHub tells by webhook, as values (docs/verification.md, "GitHub").

Invariants:
- a delivery is signed with the webhook's secret, or nothing of it is read; signatures are compared in constant time;
- a payload is read by the names of GitHub's public schemas. One of another shape is refused, and the field is named;
- the files of a push are all that its commits name, or not known (None) where GitHub does not name all of them.

Pure.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from relay.model import Fault, Refusal
from relay.verification.verification import Change, Source

#: Bytes of a payload; GitHub delivers no larger one (25 MB).
MOST_BYTES = 25 * 1024 * 1024
#: Commits that the payload of a push lists at most, and files that it lists of one commit.
MOST_COMMITS, MOST_FILES = 2048, 3000
#: Characters of a summary.
MOST_SUMMARY = 200
#: The actions of a pull request by which there is something new to verify.
NEW_WORK = ("opened", "reopened", "synchronize", "ready_for_review")
FORM = "application/x-www-form-urlencoded"

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_HEADS = "refs/heads/"
#: The id of one of relay's runs: the changeset's, the policy, the attempt.
_RELAY_ID = re.compile(r"(?<![\w-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-[\w-]{1,200}")
_RUN_OF_JOB = re.compile(r"/actions/runs/([0-9]{1,18})(?:/|$)")


@dataclass(frozen=True, slots=True)
class Ignored:
    """A delivery of which nothing follows. `why`: in words."""

    why: str


@dataclass(frozen=True, slots=True)
class RunOver:
    """A run of a workflow on GitHub, or a job of one, is over. `relay_id`: the id that relay gave it (`Run.id`), None
    = the delivery does not say; `run`: GitHub's id of the run. What came of it is asked of GitHub."""

    relay_id: str | None
    run: int | None
    conclusion: str


def is_signed(secret: str, body: bytes, signature: str) -> bool:
    """Was this body signed with this secret? `signature`: the header `X-Hub-Signature-256`."""
    made = hmac.new(secret.encode(), digestmod=hashlib.sha256)
    made.update(body)
    return hmac.compare_digest(
        f"sha256={made.hexdigest()}".encode(), signature.encode("utf-8", "surrogateescape")
    )


def read_body(body: bytes, content_type: str) -> Any:
    """The JSON value of a delivery, of either content type that GitHub offers. Raises Refusal."""
    try:
        text = body.decode()
        if content_type == FORM:
            (text,) = parse_qs(text, strict_parsing=True, max_num_fields=16)["payload"]
        # A hook in Python, so that a large payload does not hold the interpreter until all of it is read.
        return json.loads(text, object_hook=lambda read: read)
    except (ValueError, KeyError, RecursionError) as error:
        raise _malformed(f"The payload is not JSON in UTF-8: {str(error)[:200]}.") from None


def parse(
    event: str, delivery: str, payload: Any, id: str, repo: str | None = None
) -> Change | RunOver | Ignored:
    """What a delivery means. `event`, `delivery`: the headers `X-GitHub-Event` and `X-GitHub-Delivery`; `id`: of the
    changeset, if it makes one; `repo`: the only repository that counts, None = any. Raises Refusal."""
    if event == "ping":
        return Ignored("a ping: the webhook reaches this room")
    if event not in ("push", "pull_request", "workflow_run", "check_run"):
        return Ignored(f"nothing here follows from the event {event[:60]!r}")
    fields = _Fields(payload)
    repository = fields.object("repository")
    name = repository.text("full_name")
    if repo is not None and repo.casefold() != name.casefold():
        return Ignored(f"it is about {name[:200]}, and this room is about {repo}")
    about = {
        "repo": name,
        "event": event,
        "delivery": delivery,
        "default_branch": repository.maybe_text("default_branch"),
        "sender": fields.object("sender").text("login"),
    }
    match event:
        case "push":
            return _push(fields, about, id)
        case "pull_request":
            return _pull_request(fields, about, id)
        case "workflow_run":
            return _workflow_run(fields)
    return _check_run(fields)


def person(login: str) -> str:
    """How somebody on GitHub is called here: never as an agent or a person of the room."""
    return f"github:{login}"


def relay_id_in(*texts: str | None) -> str | None:
    """The id of a run of relay's that one of these texts names, as a word of its own."""
    for text in texts:
        if text and (found := _RELAY_ID.search(text[:1000])):
            return found[0]
    return None


def _push(fields: _Fields, about: dict[str, Any], id: str) -> Change | Ignored:
    ref, after, before = fields.text("ref"), fields.sha("after"), fields.sha("before")
    if not ref.startswith(_HEADS):
        return Ignored(f"{ref[:200]} is not a branch, and only branches are verified")
    if fields.flag("deleted") or not after.strip("0"):
        return Ignored(f"the branch {ref.removeprefix(_HEADS)[:200]} was deleted: there is nothing to verify")
    head = fields.maybe_object("head_commit")
    about |= {"ref": ref, "forced": fields.flag("forced"), "url": fields.maybe_text("compare")}
    return Change(
        id,
        Source.GITHUB,
        person(fields.object("pusher").text("name")),
        person(about["sender"]),
        ref.removeprefix(_HEADS),
        after,
        before if before.strip("0") else None,
        head.sha("tree_id") if head is not None else None,
        _files(fields),
        _first_line(head.text("message") if head is not None else ""),
        about={"github": about},
    )


def _files(fields: _Fields) -> tuple[str, ...] | None:
    """All paths that the commits of a push name; None where these may not be all. GitHub cuts long lists, and leaves
    the three lists of a very large commit empty."""
    commits = list(fields.objects("commits"))
    size = fields.value.get("size")
    if not commits or len(commits) >= MOST_COMMITS or (isinstance(size, int) and size > len(commits)):
        return None
    files: dict[str, None] = {}
    for commit in commits:
        lists = [commit.maybe_texts(name) for name in ("added", "modified", "removed")]
        named = [path for paths in lists if paths is not None for path in paths]
        if None in lists or not 0 < len(named) < MOST_FILES:
            return None
        files |= dict.fromkeys(named)
    return tuple(files)


def _pull_request(fields: _Fields, about: dict[str, Any], id: str) -> Change | Ignored:
    action = fields.text("action")
    if action not in NEW_WORK:
        return Ignored(f"the action {action[:60]!r} of a pull request brings nothing new to verify")
    pull = fields.object("pull_request")
    head, base = pull.object("head"), pull.object("base")
    branch = head.text("ref")
    about |= {
        "action": action,
        "number": pull.whole("number"),
        "ref": f"{_HEADS}{branch}",
        "base_branch": base.text("ref"),
        "url": pull.maybe_text("html_url"),
    }
    origin = head.maybe_object("repo")
    if origin is None or origin.text("full_name").casefold() != about["repo"].casefold():
        about["fork"] = origin.text("full_name") if origin is not None else "a fork that is gone"
    return Change(
        id,
        Source.GITHUB,
        person(pull.object("user").text("login")),
        person(about["sender"]),
        branch,
        head.sha("sha"),
        base.sha("sha"),
        summary=_first_line(pull.text("title")),
        about={"github": about},
    )


def _workflow_run(fields: _Fields) -> RunOver | Ignored:
    if (action := fields.text("action")) != "completed":
        return Ignored(f"the action {action[:60]!r} of a run is not its end")
    run = fields.object("workflow_run")
    return RunOver(
        relay_id_in(run.maybe_text("display_title"), run.maybe_text("name")),
        run.whole("id"),
        run.maybe_text("conclusion") or "",
    )


def _check_run(fields: _Fields) -> RunOver | Ignored:
    if (action := fields.text("action")) != "completed":
        return Ignored(f"the action {action[:60]!r} of a check is not its end")
    check = fields.object("check_run")
    at = _RUN_OF_JOB.search((check.maybe_text("details_url") or "")[:1000])
    return RunOver(
        relay_id_in(check.text("name"), check.maybe_text("external_id")),
        int(at[1]) if at is not None else None,
        check.maybe_text("conclusion") or "",
    )


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].strip()[:MOST_SUMMARY]


class _Fields:
    """An object of a payload. `at`: where it stands in it, for what is said of a wrong field."""

    def __init__(self, value: Any, at: str = "") -> None:
        if not isinstance(value, dict):
            raise _malformed(f"{at or 'The payload'} is not an object.")
        self.value: dict[str, Any] = value
        self._at = f"{at}." if at else ""

    def text(self, name: str) -> str:
        value = self.maybe_text(name)
        if value is None:
            raise _malformed(f"{self._at}{name} is missing.")
        return value

    def maybe_text(self, name: str) -> str | None:
        value = self.value.get(name)
        return None if value is None else _storable(value, f"{self._at}{name}")

    def maybe_texts(self, name: str) -> list[str] | None:
        """A list of texts; None: it is not there."""
        values = self.value.get(name)
        if values is None:
            return None
        if not isinstance(values, list):
            raise _malformed(f"{self._at}{name} is not a list.")
        return [_storable(value, f"{self._at}{name}[{number}]") for number, value in enumerate(values)]

    def sha(self, name: str) -> str:
        value = self.text(name)
        if not _SHA.fullmatch(value):
            raise _malformed(f"{self._at}{name} is no id of git's.")
        return value

    def flag(self, name: str) -> bool:
        value = self.value.get(name)
        if not isinstance(value, bool):
            raise _malformed(f"{self._at}{name} is not true or false.")
        return value

    def whole(self, name: str) -> int:
        value = self.value.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _malformed(f"{self._at}{name} is not a whole number.")
        return value

    def object(self, name: str) -> _Fields:
        return _Fields(self.value.get(name), f"{self._at}{name}")

    def maybe_object(self, name: str) -> _Fields | None:
        return None if self.value.get(name) is None else self.object(name)

    def objects(self, name: str) -> Iterator[_Fields]:
        values = self.value.get(name)
        if not isinstance(values, list):
            raise _malformed(f"{self._at}{name} is not a list.")
        for number, value in enumerate(values):
            yield _Fields(value, f"{self._at}{name}[{number}]")


def _storable(value: Any, at: str) -> str:
    """The text, one that a database stores."""
    if not isinstance(value, str):
        raise _malformed(f"{at} is not a text.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _malformed(f"{at} has an unpaired surrogate.") from None
    if "\0" in value:
        raise _malformed(f"{at} has the character NUL.")
    return value


def _malformed(message: str) -> Refusal:
    fix = "GitHub's documentation of webhook events and payloads has the shape."
    return Refusal(message, fix, Fault.MALFORMED, "bad_payload")
