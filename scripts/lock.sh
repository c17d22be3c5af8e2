#!/usr/bin/env bash
# Renews requirements.lock and requirements-test.lock from the pins in pyproject.toml, in a fresh environment.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

python="$(find_python)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"

wanted() { # wanted [EXTRA]: what pyproject.toml asks for, the build tool too since relay is installed with it
  "$work/venv/bin/python" - "$ROOT/pyproject.toml" "${1:-}" <<'PYTHON'
import sys, tomllib
told = tomllib.load(open(sys.argv[1], "rb"))
project = told["project"]
print("\n".join(told["build-system"]["requires"] + project["dependencies"]))
print("\n".join(project["optional-dependencies"][sys.argv[2]] if sys.argv[2] else []))
PYTHON
}

frozen() { "$work/venv/bin/python" -m pip freeze --all --disable-pip-version-check | grep '==' | grep -v '^pip=='; }

for extra in "" test; do
  wanted "$extra" >"$work/wanted"
  "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$work/wanted"
  frozen >"$work/frozen$extra"
done
{
  echo "# Everything relay runs on, with what that needs itself; pyproject.toml names what is asked for."
  echo "# To renew: bash scripts/lock.sh"
  cat "$work/frozen"
} >"$ROOT/requirements.lock"
{
  echo "# What the tests need on top."
  echo "-r requirements.lock"
  grep -vxFf "$work/frozen" "$work/frozentest"
} >"$ROOT/requirements-test.lock"
