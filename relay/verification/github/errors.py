"""Why GitHub did not do what it was asked. By itself, so that who only takes the error imports no client."""

from __future__ import annotations


class GithubError(Exception):
    """GitHub did not do it. `status`: of its answer, 0 = none came; `passes`: it may be done later; `after_s`:
    seconds to wait before."""

    def __init__(self, message: str, status: int = 0, *, passes: bool = False, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.passes, self.after_s = status, passes, after_s
