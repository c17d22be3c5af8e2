"""`python -m relay.config --table`: every key of the configuration, for docs/configuration.md."""

from __future__ import annotations

import sys

from relay.config.checks import table
from relay.config.settings import LIVE, Settings


def markdown_table() -> str:
    """Every key as a table in Markdown; the text of docs/configuration.md between its marks."""
    lines = ["| key | allowed | default | meaning |", "|---|---|---|---|"]
    for key in table(Settings):
        allowed = key.kind.replace("|", "\\|")
        live = "live" if key.path.split("[")[0].split(".")[0] in LIVE else "restart"
        lines.append(f"| `{key.path}` | {allowed} | `{key.default}` | {key.meaning} | {live} |")
    lines[0], lines[1] = lines[0] + " a change applies |", lines[1] + "---|"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] != ["--table"]:
        print("usage: python -m relay.config --table", file=sys.stderr)
        raise SystemExit(2)
    print(markdown_table(), end="")
