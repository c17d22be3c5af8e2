#!/usr/bin/env bash
# Starts the room: sets up what is missing, starts the daemon in the background, says where the page is.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/start.sh [--config PATH] [--foreground] [--no-open]

  --config PATH   the configuration (else RELAY_CONFIG, else config.json beside scripts/)
  --foreground    stay in the foreground, for service managers
  --no-open       do not open the page, on a desktop either
  --help          this

Needs Python 3.11 or newer and git. Exit code: 0 it runs (or ran already), 1 it could not be started, 2 wrong use.
TEXT
}

config="${RELAY_CONFIG:-}" foreground="" open_page=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --config=*) config="${1#--config=}" ;;
    --config)
      [ $# -ge 2 ] || { echo "relay: --config wants a path" >&2; usage >&2; exit 2; }
      config="$2"
      shift
      ;;
    --foreground) foreground=yes ;;
    --no-open) open_page="" ;;
    -h | --help) usage; exit 0 ;;
    *) echo "relay: unknown option: $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
config="${config:-$ROOT/config.json}"
case "$config" in /*) ;; *) config="$PWD/$config" ;; esac
[ -f "$config" ] || fail "there is no configuration at $config" "give --config PATH"
export RELAY_CONFIG="$config"

if [ -x "$PY" ] && running="$("$PY" -m relay.app.runtime.instance --config "$config" 2>/dev/null)"; then
  say "$running"
  say "a sign-in link: \"$VENV/bin/relay\" link --config \"$config\""
  say "to stop it: bash \"$ROOT/stop.sh\" --config \"$config\""
  exit 0
fi

set_up

if [ -n "$foreground" ]; then
  exec "$VENV/bin/relay" run --foreground --config "$config"
fi

say "starting"
log="$(dirname "$config")/.relay/relay.log"
# What stands in the log before is of an older start.
size_of() { if [ -f "$1" ]; then wc -c <"$1"; else echo 0; fi; }
began="$(size_of "$log")"
told="$(mktemp)"
started=yes
"$VENV/bin/relay" run --config "$config" </dev/null 2>"$told" || started=""
cat "$told" >&2
if [ -z "$started" ]; then
  size="$(size_of "$log")"
  # A log that is shorter by now was started again.
  [ "$size" -ge "$began" ] || began=0
  if [ "$size" -gt "$began" ]; then
    # What was said already is not said again.
    rest="$(tail -c "+$((began + 1))" "$log" | tail -n 15 | while IFS= read -r line; do
      [ -z "$line" ] || grep -qF -e "$line" "$told" || printf '%s\n' "$line"
    done)"
    if [ -n "$rest" ]; then
      say "the last lines of $log:"
      printf '%s\n' "$rest" >&2
    fi
  fi
  rm -f "$told"
  fail "the daemon did not start." "What is said above names the cause; repair that and run this again." \
    "To watch it start: bash \"$ROOT/scripts/start.sh\" --foreground --config \"$config\"" \
    "To check: bash \"$ROOT/healthcheck.sh\" --config \"$config\""
fi

rm -f "$told"

# Only where somebody sits in front of a screen of this very machine.
opener=""
if [ -n "$open_page" ] && [ -t 1 ] && [ -z "${SSH_CONNECTION:-}" ]; then
  if [ "$(uname)" = Darwin ]; then opener=open; elif [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then opener=xdg-open; fi
fi
if [ -n "$opener" ] && command -v "$opener" >/dev/null 2>&1 && url="$("$VENV/bin/relay" link --config "$config")"; then
  ("$opener" "$url" >/dev/null 2>&1 </dev/null &)
fi
