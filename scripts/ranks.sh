#!/usr/bin/env bash
# Installs Horovod into .venv, for training on several ranks; `make setup` comes first.
#
# The registry has Horovod's source alone. Its wheel is built once, which takes minutes, and kept in
# ${XDG_CACHE_HOME:-~/.cache}/ascpipe/wheels under the digest of all that it depends on: `make clean` leaves it there.
# gloo is always built, MPI where Open MPI's compiler is.
# Argument: check = build nothing, only say what is missing.  Exit: 0 done, 2 something is missing on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."

PY=.venv/bin/python
if [ -x $PY ] && ! $PY -c 'import sys; sys.exit(sys.version_info >= (3, 8))'; then
  echo "ranks: several ranks need CPython 3.7 and TensorFlow 1.15; .venv has $($PY --version)" >&2
  exit 2
fi
LOCK=requirements-ranks.lock
STAMP=.venv/.stamps/ranks

say() { printf 'ranks: %s\n' "$*" >&2; }
missing() { say "$1 (Debian: apt-get install $2)"; exit 2; }

command -v g++ >/dev/null || missing "g++ is missing" g++
command -v make >/dev/null || missing "make is missing" make
# The registry's cmake is 4, which refuses gloo's CMakeLists.txt. What is in .venv is not asked: it is not on the path.
cmake_version=$(cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }') || true
case $cmake_version in
  "") missing "cmake is missing" cmake ;;
  [012].* | 3.[0-9].* | 3.1[0-2].*) missing "cmake $cmake_version is too old, Horovod needs 3.13" cmake ;;
  3.*) ;;
  *) missing "cmake $cmake_version cannot build gloo, which needs 3.13 to 3.31" cmake ;;
esac
[ "${1:-}" != check ] || exit 0

mpi=$(mpicxx -showme:version 2>/dev/null || true)  # only Open MPI's knows this option
tensorflow=$($PY -W ignore -c 'import importlib_metadata as m, sys; print(sys.version.split()[0], m.version("tensorflow"))')
digest=$({ cat $LOCK; uname -m; g++ -dumpfullversion; echo "$tensorflow"; echo "$mpi"; } | sha256sum |
  cut -c1-16)
wheels=${XDG_CACHE_HOME:-$HOME/.cache}/ascpipe/wheels
wheel=$wheels/$digest

if [ "$(cat $STAMP 2>/dev/null)" = "$digest $PWD" ]; then
  exit 0
fi

mkdir -p "$wheels"
exec 9>"$wheels/lock"
if ! flock --nonblock 9; then  # two trees may ask for it at once
  say "another tree builds Horovod; waiting for it (its lock: $wheels/lock)"
  until flock --timeout 60 9; do say "still waiting; the build writes $wheels/build.log"; done
fi
if ! ls "$wheel"/horovod-*.whl >/dev/null 2>&1; then
  say "building Horovod for $tensorflow, with gloo${mpi:+ and MPI}: minutes, once"
  building=$(mktemp -d "$wheels/building.XXXXXX")
  trap 'rm -rf "$building"' EXIT
  grep -A1 '^horovod==' $LOCK >"$building/horovod.lock"
  if [ -n "$mpi" ]; then with_mpi=(HOROVOD_WITH_MPI=1); else with_mpi=(HOROVOD_WITHOUT_MPI=1); fi
  # Its set-up calls python and cmake by the path; MAKEFLAGS of the make that called us would be those of its build.
  if ! env -u MAKELEVEL MAKEFLAGS="-j$(nproc)" PATH="$PWD/.venv/bin:$PATH" HOROVOD_CMAKE="$(command -v cmake)" \
      HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 "${with_mpi[@]}" \
      $PY -m pip wheel --quiet --disable-pip-version-check --require-hashes --no-deps --no-build-isolation \
      --no-binary horovod --no-cache-dir --wheel-dir "$building" -r "$building/horovod.lock" \
      >"$wheels/build.log" 2>&1; then
    say "Horovod was not built; its last words, of $wheels/build.log:"
    tail -n 40 "$wheels/build.log" >&2
    exit 1
  fi
  rm -rf "$wheel" "$building/horovod.lock"
  mv "$building" "$wheel"
fi

say "installing Horovod and what it needs into .venv"
awk '/^horovod==/ { getline; next } { print }' $LOCK >.venv/ranks.lock
$PY -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r .venv/ranks.lock
$PY -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall "$wheel"/horovod-*.whl
mkdir -p .venv/.stamps
printf '%s' "$digest $PWD" >$STAMP
