"""What GitHub sends and answers, in the shapes of its public schemas: payloads of webhooks, objects of the API."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]
API = "https://api.github.com"
WEB = "https://github.com"
AT = "2026-01-02T03:04:05Z"
ZEROS = "0" * 40


def sha(text: str) -> str:
    """The id of a commit or a tree, the same for the same text."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def user(login: str, kind: str = "User") -> Json:
    at = f"{API}/users/{login}"
    return {
        "login": login,
        "id": _number(login),
        "node_id": f"MDQ6{login}",
        "avatar_url": f"https://avatars.githubusercontent.com/u/{_number(login)}?v=4",
        "gravatar_id": "",
        "url": at,
        "html_url": f"{WEB}/{login}",
        "followers_url": f"{at}/followers",
        "following_url": f"{at}/following{{/other_user}}",
        "gists_url": f"{at}/gists{{/gist_id}}",
        "starred_url": f"{at}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{at}/subscriptions",
        "organizations_url": f"{at}/orgs",
        "repos_url": f"{at}/repos",
        "events_url": f"{at}/events{{/privacy}}",
        "received_events_url": f"{at}/received_events",
        "type": kind,
        "site_admin": False,
    }


#: What follows the repository's address in each of its templates of addresses.
_PLACES = {
    "archive": "/{archive_format}{/ref}",
    "assignees": "/assignees{/user}",
    "blobs": "/git/blobs{/sha}",
    "branches": "/branches{/branch}",
    "collaborators": "/collaborators{/collaborator}",
    "comments": "/comments{/number}",
    "commits": "/commits{/sha}",
    "compare": "/compare/{base}...{head}",
    "contents": "/contents/{+path}",
    "contributors": "/contributors",
    "deployments": "/deployments",
    "downloads": "/downloads",
    "events": "/events",
    "forks": "/forks",
    "git_commits": "/git/commits{/sha}",
    "git_refs": "/git/refs{/sha}",
    "git_tags": "/git/tags{/sha}",
    "hooks": "/hooks",
    "issue_comment": "/issues/comments{/number}",
    "issue_events": "/issues/events{/number}",
    "issues": "/issues{/number}",
    "keys": "/keys{/key_id}",
    "labels": "/labels{/name}",
    "languages": "/languages",
    "merges": "/merges",
    "milestones": "/milestones{/number}",
    "notifications": "/notifications{?since,all,participating}",
    "pulls": "/pulls{/number}",
    "releases": "/releases{/id}",
    "stargazers": "/stargazers",
    "statuses": "/statuses/{sha}",
    "subscribers": "/subscribers",
    "subscription": "/subscription",
    "tags": "/tags",
    "teams": "/teams",
    "trees": "/git/trees{/sha}",
}


def repository_lite(name: str) -> Json:
    """As a run has it."""
    owner, _, short = name.partition("/")
    at = f"{API}/repos/{name}"
    return {
        "id": _number(name),
        "node_id": f"MDEw{short}",
        "name": short,
        "full_name": name,
        "private": False,
        "owner": user(owner),
        "html_url": f"{WEB}/{name}",
        "description": None,
        "fork": False,
        "url": at,
        **{f"{place}_url": at + rest for place, rest in _PLACES.items()},
    }


def repository(name: str, default_branch: str = "main") -> Json:
    return {
        **repository_lite(name),
        "created_at": AT,
        "updated_at": AT,
        "pushed_at": AT,
        "git_url": f"git://github.com/{name}.git",
        "ssh_url": f"git@github.com:{name}.git",
        "clone_url": f"{WEB}/{name}.git",
        "svn_url": f"{WEB}/{name}",
        "homepage": None,
        "size": 12,
        **dict.fromkeys(("stargazers_count", "watchers_count", "forks_count", "open_issues_count"), 0),
        **dict.fromkeys(("forks", "open_issues", "watchers"), 0),
        "language": "Python",
        **dict.fromkeys(("has_issues", "has_projects", "has_downloads", "has_wiki"), True),
        **dict.fromkeys(("has_pages", "archived", "disabled", "is_template"), False),
        "mirror_url": None,
        "license": None,
        "allow_forking": True,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "public",
        "default_branch": default_branch,
        "custom_properties": {},
    }


def commit(
    id: str,
    message: str = "Change it",
    *,
    added: Sequence[str] = (),
    modified: Sequence[str] = (),
    removed: Sequence[str] = (),
    tree: str | None = None,
) -> Json:
    """A commit of a push."""
    who = {"name": "Ann", "email": "ann@example.com", "username": "ann"}
    return {
        "id": id,
        "tree_id": tree or sha(f"tree of {id}"),
        "distinct": True,
        "message": message,
        "timestamp": AT,
        "url": f"{WEB}/o/r/commit/{id}",
        "author": who,
        "committer": who,
        "added": list(added),
        "removed": list(removed),
        "modified": list(modified),
    }


def push(
    repo: str,
    commits: Sequence[Json],
    *,
    ref: str = "refs/heads/main",
    before: str | None = None,
    after: str | None = None,
    forced: bool = False,
    by: str = "ann",
) -> Json:
    before = sha("before") if before is None else before
    head = commits[-1] if commits else None
    after = after or (head["id"] if head else ZEROS)
    return {
        "ref": ref,
        "before": before,
        "after": after,
        "repository": repository(repo),
        "pusher": {"name": by, "email": f"{by}@example.com"},
        "sender": user(by),
        "created": before == ZEROS,
        "deleted": after == ZEROS,
        "forced": forced,
        "base_ref": None,
        "compare": f"{WEB}/{repo}/compare/{before[:12]}...{after[:12]}",
        "commits": list(commits),
        "head_commit": None if after == ZEROS else head,
    }


def pull_request(
    repo: str,
    number: int,
    head: str,
    base: str,
    *,
    action: str = "opened",
    branch: str = "topic",
    into: str = "main",
    head_repo: str | None = "",
    title: str = "A better total",
    by: str = "ann",
) -> Json:
    """`head_repo`: where the branch is, empty = here, None = a fork that was deleted."""
    origin = repo if head_repo == "" else head_repo
    at, web = f"{API}/repos/{repo}", f"{WEB}/{repo}/pull/{number}"
    issue = f"{at}/issues/{number}"
    links = {
        "self": f"{at}/pulls/{number}",
        "html": web,
        "issue": issue,
        "comments": f"{issue}/comments",
        "review_comments": f"{at}/pulls/{number}/comments",
        "review_comment": f"{at}/pulls/comments{{/number}}",
        "commits": f"{at}/pulls/{number}/commits",
        "statuses": f"{at}/statuses/{head}",
    }
    owner = (origin or "ghost/gone").partition("/")[0]
    told: Json = {
        "url": links["self"],
        "id": 900 + number,
        "node_id": f"PR_{number}",
        "html_url": web,
        "diff_url": f"{web}.diff",
        "patch_url": f"{web}.patch",
        "issue_url": issue,
        "number": number,
        "state": "open",
        "locked": False,
        "title": title,
        "user": user(by),
        "body": None,
        "created_at": AT,
        "updated_at": AT,
        **dict.fromkeys(("closed_at", "merged_at", "merge_commit_sha", "assignee", "milestone"), None),
        **{name: [] for name in ("assignees", "requested_reviewers", "requested_teams", "labels")},
        "draft": False,
        **{f"{name}_url": links[name] for name in ("commits", "review_comments", "review_comment")},
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "head": {
            "label": f"{owner}:{branch}",
            "ref": branch,
            "sha": head,
            "user": user(owner),
            "repo": None if origin is None else repository(origin),
        },
        "base": {
            "label": f"{repo.partition('/')[0]}:{into}",
            "ref": into,
            "sha": base,
            "user": user(repo.partition("/")[0]),
            "repo": repository(repo),
        },
        "_links": {name: {"href": place} for name, place in links.items()},
        "author_association": "OWNER",
        **dict.fromkeys(("auto_merge", "active_lock_reason", "mergeable", "rebaseable", "merged_by"), None),
        "merged": False,
        "mergeable_state": "unknown",
        "maintainer_can_modify": False,
        **dict.fromkeys(("comments", "review_comments"), 0),
        **dict.fromkeys(("commits", "additions", "deletions", "changed_files"), 1),
    }
    more = {"before": sha("before"), "after": head} if action == "synchronize" else {}
    return {
        "action": action,
        "number": number,
        "pull_request": told,
        "repository": repository(repo),
        "sender": user(by),
        **more,
    }


def run(
    repo: str,
    id: int,
    *,
    title: str,
    head: str,
    branch: str = "main",
    workflow: str = "verify.yml",
    status: str = "queued",
    conclusion: str | None = None,
    event: str = "workflow_dispatch",
    at: str = API,
) -> Json:
    """A run of a workflow. `at`: the address of the API."""
    mine = f"{at}/repos/{repo}/actions/runs/{id}"
    return {
        "id": id,
        "name": workflow.partition(".")[0],
        "node_id": f"WFR_{id}",
        "check_suite_id": 7000 + id,
        "check_suite_node_id": f"CS_{id}",
        "head_branch": branch,
        "head_sha": head,
        "path": f".github/workflows/{workflow}",
        "run_number": id,
        "run_attempt": 1,
        "event": event,
        "display_title": title,
        "status": status,
        "conclusion": conclusion,
        "workflow_id": _number(workflow),
        "url": mine,
        "html_url": f"{WEB}/{repo}/actions/runs/{id}",
        "pull_requests": [],
        **dict.fromkeys(("created_at", "updated_at", "run_started_at"), AT),
        "actor": user("ann"),
        "triggering_actor": user("ann"),
        "jobs_url": f"{mine}/jobs",
        "logs_url": f"{mine}/logs",
        "check_suite_url": f"{at}/repos/{repo}/check-suites/{7000 + id}",
        "artifacts_url": f"{mine}/artifacts",
        "cancel_url": f"{mine}/cancel",
        "rerun_url": f"{mine}/rerun",
        "previous_attempt_url": None,
        "workflow_url": f"{at}/repos/{repo}/actions/workflows/{_number(workflow)}",
        "head_commit": {
            "id": head,
            "tree_id": sha(f"tree of {head}"),
            "message": "Change it",
            "timestamp": AT,
            "author": {"name": "Ann", "email": "ann@example.com"},
            "committer": {"name": "Ann", "email": "ann@example.com"},
        },
        "repository": repository_lite(repo),
        "head_repository": repository_lite(repo),
    }


def workflow_run(repo: str, of: Json, action: str = "completed") -> Json:
    name = of["path"].rpartition("/")[2]
    return {
        "action": action,
        "workflow_run": of,
        "workflow": {
            "id": of["workflow_id"],
            "node_id": "W_1",
            "name": of["name"],
            "path": of["path"],
            "state": "active",
            "created_at": AT,
            "updated_at": AT,
            "url": of["workflow_url"],
            "html_url": f"{WEB}/{repo}/blob/main/{of['path']}",
            "badge_url": f"{WEB}/{repo}/workflows/{name}/badge.svg",
        },
        "repository": repository(repo),
        "sender": user("ann"),
    }


def job(id: int, of: Json, name: str, conclusion: str | None, steps: Sequence[tuple[str, str]] = ()) -> Json:
    """A job of a run, as the API lists it."""
    return {
        "id": id,
        "run_id": of["id"],
        "run_url": of["url"],
        "node_id": f"CR_{id}",
        "head_sha": of["head_sha"],
        "url": f"{of['url'].rpartition('/runs/')[0]}/jobs/{id}",
        "html_url": f"{of['html_url']}/job/{id}",
        "status": "completed" if conclusion else "in_progress",
        "conclusion": conclusion,
        "created_at": AT,
        "started_at": AT,
        "completed_at": AT if conclusion else None,
        "name": name,
        "steps": [
            {"name": step, "status": "completed", "conclusion": how, "number": number}
            for number, (step, how) in enumerate(steps, 1)
        ],
        "check_run_url": f"{API}/repos/o/r/check-runs/{id}",
        "labels": ["ubuntu-latest"],
        "runner_id": 1,
        "runner_name": "a runner",
        "runner_group_id": 2,
        "runner_group_name": "GitHub Actions",
        "run_attempt": 1,
        "workflow_name": of["name"],
        "head_branch": of["head_branch"],
    }


def check_run(repo: str, of: Json, name: str, conclusion: str = "success", action: str = "completed") -> Json:
    """The check of one job of a run."""
    id, at = 31, f"{API}/repos/{repo}"
    app = {
        "id": 15368,
        "slug": "github-actions",
        "node_id": "MDM6",
        "owner": user("github", "Organization"),
        "name": "GitHub Actions",
        "description": "Automate your workflow",
        "external_url": "https://help.github.com/en/actions",
        "html_url": f"{WEB}/apps/github-actions",
        "created_at": AT,
        "updated_at": AT,
        "permissions": {},
        "events": [],
    }
    suite = {
        "id": of["check_suite_id"],
        "node_id": of["check_suite_node_id"],
        "head_branch": of["head_branch"],
        "head_sha": of["head_sha"],
        "status": "completed",
        "conclusion": conclusion,
        "url": of["check_suite_url"],
        "before": sha("before"),
        "after": of["head_sha"],
        "pull_requests": [],
        "app": app,
        "created_at": AT,
        "updated_at": AT,
    }
    return {
        "action": action,
        "check_run": {
            "id": id,
            "node_id": f"CR_{id}",
            "head_sha": of["head_sha"],
            "external_id": "6a2b1f0e-0000-5000-8000-000000000000",
            "url": f"{at}/check-runs/{id}",
            "html_url": f"{of['html_url']}/job/{id}",
            "details_url": f"{of['html_url']}/job/{id}",
            "status": "completed",
            "conclusion": conclusion,
            "started_at": AT,
            "completed_at": AT,
            "output": {
                "title": None,
                "summary": None,
                "text": None,
                "annotations_count": 0,
                "annotations_url": f"{at}/check-runs/{id}/annotations",
            },
            "name": name,
            "check_suite": suite,
            "app": app,
            "pull_requests": [],
        },
        "repository": repository(repo),
        "sender": user("ann"),
    }


def ping(repo: str) -> Json:
    config = {"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": f"{WEB}/hook"}
    hook = {
        "type": "Repository",
        "id": 109948940,
        "name": "web",
        "active": True,
        "events": ["push", "pull_request", "workflow_run", "check_run"],
        "config": config,
        "updated_at": AT,
        "created_at": AT,
        **{
            f"{name}url": f"{API}/repos/{repo}/hooks/109948940{rest}"
            for name, rest in (
                ("", ""),
                ("test_", "/test"),
                ("ping_", "/pings"),
                ("deliveries_", "/deliveries"),
            )
        },
        "last_response": {"code": None, "status": "unused", "message": None},
    }
    return {
        "zen": "Keep it logically awesome.",
        "hook_id": 109948940,
        "hook": hook,
        "repository": repository(repo),
        "sender": user("ann"),
    }


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:7], 16)
