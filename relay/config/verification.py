"""The configuration of verification (`verification`)."""

from __future__ import annotations

from dataclasses import dataclass

from relay.config.checks import setting


@dataclass(frozen=True, slots=True)
class GithubSettings:
    """The repository on GitHub whose workflows verify, and whose webhooks are taken."""

    repo: str | None = setting(
        "its name there, as `owner/name`; null = nothing runs on GitHub", None, empty=False
    )
    api: str = setting("the address of its API", "https://api.github.com", empty=False)
    token_env: str = setting("the environment variable that has the token", "GITHUB_TOKEN", empty=False)
    secret_env: str = setting(
        "the environment variable that has the secret of the webhook", "RELAY_GITHUB_SECRET", empty=False
    )
    poll_s: float = setting(
        "seconds between two looks at a run that no webhook tells of", 15.0, low=0.1, high=3600
    )
    statuses: bool = setting("true = what came of a verification is told to GitHub as a commit status", False)


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """What says how changes are verified."""

    policies: str = setting(
        "the folder of the verification policies, one or several in each `*.yaml` file; a relative path is beside "
        "config.json. Without one nothing is verified, and that is said",
        "policies",
    )
    at_once: int = setting("programs of policies that run here at once", 2, low=1, high=64)
    approval_s: float = setting(
        "seconds that people have for an approval; then it is expired, and that is no approval",
        604_800.0,
        low=1,
        high=31_536_000,
    )
    github: GithubSettings = setting("", GithubSettings)


@dataclass(frozen=True, slots=True)
class LandingSettings:
    """How agents' branches land on the main branch."""

    required: bool = setting(
        "true = agents' branches are merged by the landing queue only; a direct merge is refused", False
    )
    batch: int = setting("branches that are tested together at most", 8, low=1, high=100)
