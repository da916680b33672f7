#!/usr/bin/env bash
# Makes .venv from requirements.lock, installs the tree into it and builds the ops.
#
# A second run takes no time: ninja compares the ops with their sources, and each other step leaves a stamp with the
# digest of what it read. Times of files would not do there: .venv may be copied into a tree with older files.
# Environment: PYTHON = the CPython 3.7 to use.  Exit: 0 done, 2 something is missing on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
STAMPS=$VENV/.stamps

say() { printf 'setup: %s\n' "$*" >&2; }

is_python37() {
  [ -n "${1:-}" ] && "$1" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 7) or sys.implementation.name != "cpython")' \
    >/dev/null 2>&1
}

find_python() {
  local candidate root
  if [ -n "${PYTHON:-}" ]; then
    is_python37 "$PYTHON" || { say "PYTHON=$PYTHON is not a CPython 3.7"; return 1; }
    printf '%s\n' "$PYTHON"
    return
  fi
  if is_python37 python3.7; then
    command -v python3.7
    return
  fi
  for root in "${PYENV_ROOT:-}" "$(pyenv root 2>/dev/null || true)" "$HOME/.pyenv"; do
    [ -n "$root" ] || continue
    for candidate in "$root"/versions/3.7*/bin/python3.7; do
      if is_python37 "$candidate"; then
        printf '%s\n' "$candidate"
        return
      fi
    done
  done
  candidate=$(uv python find 3.7 2>/dev/null || true)
  is_python37 "$candidate" && printf '%s\n' "$candidate"
}

explain_python() {
  cat >&2 <<'TEXT'
setup: no CPython 3.7 here, and TensorFlow 1.15.5 has no package for a newer one. Ways to get one:
  docker    docker run -it -v "$PWD":/src -w /src python:3.7-bookworm bash   (then run make again)
  pyenv     pyenv install 3.7.16
  conda     conda create -n py37 python=3.7   (then PYTHON="$(conda run -n py37 which python)" make ...)
  uv        pip install uv==0.6.17 && uv python install 3.7
Then run the same command again; PYTHON=/path/to/python3.7 names one that is not found by itself.
TEXT
}

# stamped NAME DIGEST: true if step NAME was done with the same DIGEST before
stamped() { [ "$(cat "$STAMPS/$1" 2>/dev/null)" = "$2" ]; }
stamp() { mkdir -p "$STAMPS" && printf '%s' "$2" >"$STAMPS/$1"; }
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }

if [ ! -x $VENV/bin/python ] || ! stamped packages "$(digest requirements.lock)"; then
  if ! is_python37 $VENV/bin/python; then
    python=$(find_python) || { explain_python; exit 2; }
    say "making $VENV with $python"
    rm -rf $VENV
    "$python" -m venv $VENV || { say "the venv module is missing (Debian: apt-get install python3-venv)"; exit 2; }
  fi
  say "installing the packages of requirements.lock"
  # First the three that install the rest: gast has no wheel and is built with them.
  awk '/^(pip|setuptools|wheel)==/,!/\\$/' requirements.lock >$VENV/bootstrap.lock
  $VENV/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $VENV/bootstrap.lock
  $VENV/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
    -r requirements.lock
  stamp packages "$(digest requirements.lock)"
fi

# A moved or copied tree must not run the old place's code: the path is part of the digest.
install_digest=$({ cat pyproject.toml setup.py; pwd; } | digest -)
if ! stamped install "$install_digest"; then
  say "installing the tree into $VENV (editable)"
  $VENV/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  # A copied tree has new times, so that Python would compile every module of TensorFlow in every process anew; where
  # PYTHONDONTWRITEBYTECODE is set, it would for ever. Some files are of other Pythons, and do not compile.
  $VENV/bin/python -m compileall -qq -j 0 $VENV/lib/python3.7/site-packages || true
  stamp install "$install_digest"
fi

command -v g++ >/dev/null || { say "g++ is missing (Debian: apt-get install g++)"; exit 2; }
$VENV/bin/python -m ascpipe.tfops.build >&2  # ninja knows what has to be done

# Workers load byte code and compiled kernels from caches; filled here, the first one starts as fast as the others.
kernels_digest=$(find ascpipe workers \( -name '*.py' -o -name '*.c' \) -print0 | sort -z | xargs -0 cat | digest -)
if ! stamped kernels "$kernels_digest"; then
  say "compiling the kernels"
  $VENV/bin/python -m compileall -q ascpipe workers tfops mx_rec
  $VENV/bin/ascpipe warmup >&2
  stamp kernels "$kernels_digest"
fi
