#!/usr/bin/env bash
# Looks whether the room is well. [--repair] [--json]; exit code: 0 well (after a repair too), 1 not, 2 wrong use.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
python="$here/.venv/bin/python"
export RELAY_CONFIG="${RELAY_CONFIG:-$here/config.json}"
if [ ! -x "$python" ]; then
  echo "relay: it is not set up here: .venv is missing. To set it up: bash scripts/start.sh" >&2
  exit 1
fi
exec "$python" -m relay.app.health.check "$@"
