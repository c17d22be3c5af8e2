#!/usr/bin/env bash
# Sets up all that the tests need and runs them: lint and types, the page's own, then pytest.
# With arguments, which go to pytest, only pytest is run. CI=true or RELAY_REQUIRE_BROWSER=1: no browser, no pass.
# --quick: lint, types, and for two minutes at most the tests that the change touches most (scripts/quick.py).
# Exit code 0 only when nothing failed.
set -euo pipefail

case "${1:-}" in
  -h | --help)
    echo "usage: bash scripts/test.sh [--quick | pytest arguments]"
    echo "Without arguments: ruff, mypy, the page's own checks and every test. With some: pytest with them."
    echo "--quick: ruff, mypy and the tests that your change touches most, for two minutes at most."
    exit 0
    ;;
esac
quick=""
if [ "${1:-}" = "--quick" ]; then
  quick=yes
  shift
  if [ $# -gt 0 ]; then
    echo "test.sh: --quick takes no other argument. For tests of your own choice: bash scripts/test.sh tests/room" >&2
    exit 2
  fi
fi

. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

need_git
make_venv
install_packages requirements-test.lock
need_node
install_page_packages
began="$(date +%s)"
build_page # checks the types of the page and of its tests, too
cd "$ROOT"

failed=""
check() {
  local name="$1"
  shift
  say "$name"
  "$@" || failed="$failed${failed:+, }$name"
}

told="$(mktemp -d)"
names=() pids=()
beside() { # beside NAME COMMAND...: in the background; `gather` shows its output
  local at=${#names[@]}
  names[at]="$1"
  shift
  say "${names[at]}, beside the rest"
  "$@" >"$told/$at" 2>&1 &
  pids[at]=$!
}
gather() { # waits for what runs beside; `failed` gets the names of what failed
  local at code
  for at in "${!pids[@]}"; do
    code=0
    wait "${pids[at]}" || code=$?
    say "${names[at]}:"
    cat "$told/$at"
    case "$code ${names[at]}" in
      0*) ;;
      143*) say "${names[at]} is left out: the time of --quick is over" ;;
      *) failed="$failed${failed:+, }${names[at]}" ;;
    esac
  done
  rm -rf "$told"
}

find_browser() {
  local candidate
  for candidate in ${RELAY_CHROMIUM:+"$RELAY_CHROMIUM"} chromium chromium-browser google-chrome google-chrome-stable \
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
    if command -v "$candidate" >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

count='import os; print(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)'
cores="$("$PY" -c "$count")"
workers="${RELAY_TEST_WORKERS:-$((cores + 2))}"

if [ -n "$quick" ]; then
  # What is not begun by then is left out, and named: the rest of the two minutes is for what runs.
  until=$((began + 90))
  beside "mypy" "$PY" -m mypy
  check "ruff check" "$PY" -m ruff check .
  check "ruff format" "$PY" -m ruff format --check .
  nearest="$("$PY" -m scripts.quick)"
  without=()
  case "$nearest" in
    *tests/browser/*)
      beside "the page: tests" npm_in_web test --if-present
      if browser="$(find_browser)"; then export RELAY_CHROMIUM="$browser"; else
        say "left out: the browser tests, since there is no Chromium."
        without=(-m "not browser")
      fi
      ;;
  esac
  if [ -n "$nearest" ]; then
    say "pytest, $(printf '%s\n' "$nearest" | wc -l | tr -d ' ') files, the nearest to the change first"
    # shellcheck disable=SC2086 # no file of the tests has a blank in its name
    RELAY_TESTS_UNTIL="$until" "$PY" -m pytest -n "${RELAY_TEST_WORKERS:-$cores}" --dist loadfile \
      --no-loadscope-reorder ${without[@]+"${without[@]}"} $nearest || failed="$failed${failed:+, }pytest"
  else
    say "no test is near the change"
  fi
  while kill -0 "${pids[0]}" 2>/dev/null && [ "$(date +%s)" -lt $((began + 115)) ]; do sleep 1; done
  kill "${pids[0]}" 2>/dev/null || true # mypy: the other checks take seconds
  gather
  if [ -n "$failed" ]; then
    say "FAILED: $failed"
    exit 1
  fi
  say "What ran passed. Skipped is what the two minutes left out. The whole: bash scripts/test.sh"
  exit 0
fi

required=""
if [ "${CI:-}" = true ] || [ "${RELAY_REQUIRE_BROWSER:-}" = 1 ]; then required=yes; fi

# What the tests of the presets look at: the real programs. They come while the rest is made ready and the first checks
# run: a gigabyte from the network. Those tests say themselves that they are left out.
programs=""
if [ -f scripts/real-agents.sh ]; then
  say "the agents' programs, beside the rest"
  at_home bash scripts/real-agents.sh >/dev/null 2>"$told/programs" </dev/null &
  programs=$!
fi
await_programs() {
  if [ -z "$programs" ] || wait "$programs"; then return 0; fi
  cat "$told/programs" >&2
  if [ -n "$required" ]; then failed="$failed${failed:+, }the agents' programs"; else
    say "the agents' programs could not be installed from here"
  fi
}

may_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_updated=""
apt_install() {
  may_install || return 1
  # Not `step`: where the network is missing, the tests that need no browser still run.
  say "installing $1"
  [ -n "$apt_updated" ] || apt-get update >>"$SETUP_LOG" 2>&1 </dev/null || return 1
  apt_updated=yes
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >>"$SETUP_LOG" 2>&1 </dev/null
}

# The terminal's tests look at it through tmux.
command -v tmux >/dev/null 2>&1 || apt_install tmux ||
  fail "the terminal's tests need tmux, and there is none." "install it: apt install tmux, or brew install tmux"

# What an agent wrote runs in a sandbox where there is one; a kernel may forbid it. Its tests say when they are left out.
command -v bwrap >/dev/null 2>&1 || apt_install bubblewrap || say "bubblewrap is not there, and could not be installed"

# The fault tests step the daemon's clock.
command -v faketime >/dev/null 2>&1 || apt_install faketime ||
  fail "the fault tests need libfaketime, and there is none." "install it: apt install faketime, or brew install libfaketime"

left_out=""
if ! browser="$(find_browser)"; then
  apt_install chromium || true
  browser="$(find_browser)" || left_out="there is no Chromium, and it could not be installed from here"
fi
if [ -z "$left_out" ]; then
  export RELAY_CHROMIUM="$browser"
elif [ -n "$required" ]; then
  fail "the browser tests are required, but $left_out." "install it: apt install chromium"
fi

without=()
if [ -n "$left_out" ]; then without=(-m "not browser"); fi
if [ $# -eq 0 ]; then
  # Side by side: the browser's tests, which share one browser; mypy and the page's own; and all others, file by file, on
  # two workers more than there are processors, since they wait for the processes that they start. (pytest-xdist's
  # groups do nothing under pytest 9.2.)
  beside "pytest tests/browser" "$PY" -m pytest -o cache_dir=.pytest_cache/browser \
    ${without[@]+"${without[@]}"} tests/browser
  beside "mypy" "$PY" -m mypy
  beside "the page: tests" npm_in_web test --if-present
  check "ruff check" "$PY" -m ruff check .
  check "ruff format" "$PY" -m ruff format --check .
  # In a new clone each worker would rewrite the assertions of all tests: once is enough.
  [ -n "$(find tests/access -name '*-pytest-*.pyc' -print -quit)" ] ||
    "$PY" -m pytest --collect-only -p no:cacheprovider --ignore=tests/browser tests >/dev/null 2>&1 || true
  await_programs
  check "pytest, the others, $workers at a time" "$PY" -m pytest -n "$workers" --dist loadfile --no-loadscope-reorder \
    ${without[@]+"${without[@]}"} --ignore=tests/browser tests
  gather
else
  await_programs
  say "pytest"
  "$PY" -m pytest ${without[@]+"${without[@]}"} "$@" || failed="$failed${failed:+, }pytest"
fi

if [ -n "$left_out" ]; then
  say "left out: the browser tests (-m browser): $left_out."
fi
if [ -n "$failed" ]; then
  say "FAILED: $failed"
  exit 1
fi
