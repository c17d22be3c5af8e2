"""Join the room from a terminal: `python scripts/join.py --name "$USER"`.

Runs with any Python 3 on the machine: it goes on in the one that `scripts/start.sh` set up in `.venv`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"


def start() -> int:
    """Hand over to `relay.faces.terminal.main`, in the right Python."""
    if PYTHON.exists() and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        os.execv(PYTHON, [str(PYTHON), str(Path(__file__).resolve()), *sys.argv[1:]])
    sys.path.insert(0, str(ROOT))
    # From a folder that lies in no room, the room of this checkout is meant.
    ours = ROOT / "config.json"
    try:
        from relay.config.locate import find, others

        if not find().exists() and not others(Path.cwd()) and ours.exists():
            os.environ["RELAY_CONFIG"] = str(ours)
        from relay.faces.terminal.main import main

        return main()  # what it needs only later is imported only then
    except ModuleNotFoundError as error:
        print(f"{error}; run `bash scripts/start.sh` once, it installs what is missing", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(start())
