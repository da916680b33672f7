# Finds a CPython 3.7 for scripts/setup.sh, which reads this file.  In: PYTHON, PYENV_ROOT.  Out: FOUND, TRIED.

TRIED=() # each candidate, and what is wrong with it

# is_python37 PATH: true if it is one; else what is wrong is added to TRIED.
is_python37() {
  local said ask='import sys, venv, ensurepip; print(sys.implementation.name, "%d.%d" % sys.version_info[:2])'
  if ! said=$("$1" -c "$ask" 2>&1); then
    said=$(printf '%s\n' "$said" | sed -n '/[^ ]/{s/^[^ ]*: line [0-9]*: //;p;q}')
    TRIED+=("$1: it does not start: ${said:-no reason was given}")
  elif [ "$said" != "cpython 3.7" ]; then
    TRIED+=("$1: it is $said")
  else
    return 0
  fi
  return 1
}

# find_python: FOUND = the first one; false if there is none.
find_python() {
  local candidate found pyenv_root
  TRIED=()
  if [ -n "${PYTHON:-}" ]; then
    FOUND=$PYTHON
    is_python37 "$PYTHON"
    return
  fi
  found=$(command -v python3.7 || true)
  [ -n "$found" ] || TRIED+=("python3.7: there is none on the PATH")
  pyenv_root=$(pyenv root 2>/dev/null || true)
  for candidate in "$found" .python/*/bin/python3.7 \
      {"${PYENV_ROOT:-}","$pyenv_root","$HOME/.pyenv"}/versions/3.7*/bin/python3.7 \
      "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3.7*/bin/python3.7 \
      {"$HOME",/opt}/{miniconda3,miniforge3,micromamba,anaconda3}/envs/*/bin/python3.7; do
    [ -e "$candidate" ] || [ -L "$candidate" ] || continue
    case $candidate in .python/*) candidate=$PWD/$candidate ;; esac
    if is_python37 "$candidate"; then
      FOUND=$candidate
      return 0
    fi
  done
  return 1
}

explain_python() {
  printf 'setup: no CPython 3.7 here, and TensorFlow 1.15.5 has no package for a newer one. What was tried:\n' >&2
  printf '  %s\n' "${TRIED[@]}" >&2
  cat >&2 <<'TEXT'
Ways to get one:
  make python   downloads CPython 3.7.9 into .python/ of this tree, and checks its digest (needs python3 and zstd)
  docker        docker build -t ascpipe .   (docs/how-to/install.md)
  pyenv         pyenv install 3.7.16   (Debian: first apt-get install build-essential libssl-dev zlib1g-dev libffi-dev
                libbz2-dev liblzma-dev libsqlite3-dev libreadline-dev)
  conda         conda create -n py37 -c conda-forge python=3.7
                (then PYTHON="$(conda run -n py37 which python)" make ...)
  uv            pipx run uv==0.6.17 python install 3.7   (Debian: apt-get install pipx; newer ones have no 3.7)
Then run the same command again; PYTHON=/path/to/python3.7 names one that is not found by itself.
TEXT
}
