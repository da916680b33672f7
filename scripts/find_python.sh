# Finds the CPython for scripts/setup.sh, which reads this file: 3.7 if there is one, else 3.11 or 3.10.
# In: PYTHON, PYENV_ROOT.  Out: FOUND, TRIED.

TRIED=() # each candidate, and the reason why it cannot be used
VERSIONS="3.7 3.11 3.10" # in order of preference

# is_supported PATH [VERSION]: true if it is a CPython of a supported version; else adds the reason to TRIED.
is_supported() {
  local said ask='import sys, venv, ensurepip; print(sys.implementation.name, "%d.%d" % sys.version_info[:2])'
  if ! said=$("$1" -c "$ask" 2>&1); then
    said=$(printf '%s\n' "$said" | sed -n '/[^ ]/{s/^[^ ]*: line [0-9]*: //;h};${g;p}')
    TRIED+=("$1: it does not start: ${said:-no reason was given}")
  elif [[ " ${2:-$VERSIONS} " != *" ${said#cpython } "* || $said != "cpython "* ]]; then
    TRIED+=("$1: it is $said")
  else
    return 0
  fi
  return 1
}

# find_python: FOUND = the first one; false if there is none.
find_python() {
  local candidate found pyenv_root version
  TRIED=()
  if [ -n "${PYTHON:-}" ]; then
    FOUND=$PYTHON
    is_supported "$PYTHON"
    return
  fi
  pyenv_root=$(pyenv root 2>/dev/null || true)
  for version in $VERSIONS; do
    found=$(command -v "python$version" || true)
    [ -n "$found" ] || TRIED+=("python$version: there is none on the PATH")
    for candidate in "$found" .python/*/bin/"python$version" \
        {"${PYENV_ROOT:-}","$pyenv_root","$HOME/.pyenv"}/versions/"$version".*/bin/"python$version" \
        "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-"$version".*/bin/"python$version" \
        {"$HOME",/opt}/{miniconda3,miniforge3,micromamba,anaconda3}/envs/*/bin/"python$version"; do
      [ -e "$candidate" ] || [ -L "$candidate" ] || continue
      case $candidate in .python/*) candidate=$PWD/$candidate ;; esac
      if is_supported "$candidate" "$version"; then
        FOUND=$candidate
        return 0
      fi
    done
  done
  return 1
}

explain_python() {
  printf 'setup: there is no CPython 3.7, 3.10 or 3.11 that can be used. What was tried:\n' >&2
  printf '  %s\n' "${TRIED[@]}" >&2
  cat >&2 <<'TEXT'
CPython 3.7 is for TensorFlow 1.15, CPython 3.10 and 3.11 are for TensorFlow 2.15. Ways to get one:
  debian        apt-get install python3-venv   (Debian 12: its python3 is CPython 3.11)
  make python   downloads CPython 3.7.9 into .python/ of this tree, and checks its digest (needs python3 and zstd)
  docker        docker build -t ascpipe .   (docs/how-to/install.md)
  pyenv         pyenv install 3.7.16   (Debian: first apt-get install build-essential libssl-dev zlib1g-dev libffi-dev
                libbz2-dev liblzma-dev libsqlite3-dev libreadline-dev)
  conda         conda create -n py37 -c conda-forge python=3.7
                (then PYTHON="$(conda run -n py37 which python)" make ...)
  uv            pipx run uv==0.6.17 python install 3.7   (Debian: apt-get install pipx; newer ones have no 3.7)
Then run the same command again; PYTHON=/path/to/python names one that is not found automatically.
TEXT
}
