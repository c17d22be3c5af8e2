"""The environment that an agent program gets.

Invariant: nothing of the daemon's environment reaches an agent unless it is on the list here or in the
agent's own configuration; the room token and the database's address are on neither. The one secret of ours that an
agent gets is its own key.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Exact names, of use to any command-line program.
COMMON = frozenset(
    {"PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL"}
    | {"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    | {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
)
COMMON_PREFIXES = ("LC_", "XDG_")
#: Never passed on from the daemon, whatever list they would match.
NEVER = ("RELAY_",)


def environment(
    daemon: Mapping[str, str],
    *,
    prefixes: tuple[str, ...] = (),
    own: Mapping[str, str] | None = None,
    agent: str,
    agent_type: str,
    session: str,
    key: str = "",
) -> dict[str, str]:
    """`daemon` filtered by the list and `prefixes`, then the agent's `own`, then the RELAY_* identity.

    RELAY_CONFIG is passed on, so that an agent's `relay mcp` finds the room; `key` is the agent's own, which proves
    there that it is this one.
    """
    allowed = (*COMMON_PREFIXES, *prefixes)
    env = {
        name: value
        for name, value in daemon.items()
        if (name in COMMON or name.startswith(allowed)) and not name.startswith(NEVER)
    }
    if "RELAY_CONFIG" in daemon:
        env["RELAY_CONFIG"] = daemon["RELAY_CONFIG"]
    env.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    env.update(own or {})
    env["RELAY_AGENT_ID"] = agent
    env["RELAY_AGENT_TYPE"] = agent_type
    if session:
        env["RELAY_SESSION_ID"] = session
    if key:
        env["RELAY_API_KEY"] = key
    return env
