#!/usr/bin/env bash
# Stops the daemon of this room. Exit code: 0 stopped or was not running, 1 could not, 2 wrong use.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
python="$here/.venv/bin/python"
export RELAY_CONFIG="${RELAY_CONFIG:-$here/config.json}"
if [ ! -x "$python" ]; then
  if [ $# -eq 0 ] && [ ! -e "$(dirname "$RELAY_CONFIG")/speaker.lock" ] && [ ! -e "$(dirname "$RELAY_CONFIG")/.relay/relay.pid" ]; then
    echo "relay is not running: it was never set up here."
    exit 0
  fi
  echo "relay: .venv is missing, so it cannot be said what runs. To make it: bash scripts/start.sh" >&2
  exit 1
fi
exec "$python" -m relay.app.runtime.stop "$@"
