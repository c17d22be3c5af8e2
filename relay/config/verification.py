"""The configuration of verification (`verification`)."""

from __future__ import annotations

from dataclasses import dataclass

from relay.config.checks import setting


@dataclass(frozen=True, slots=True)
class VerificationSettings:
    """What says how changes are verified."""

    policies: str = setting(
        "the folder of the verification policies, one or several in each `*.yaml` file; a relative path is beside "
        "config.json. Without one nothing is verified, and that is said",
        "policies",
    )
