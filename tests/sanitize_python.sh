#!/bin/sh
# Runs the native property tests on extensions built with AddressSanitizer and
# UndefinedBehaviorSanitizer, or with what the first argument names:
#     tests/sanitize_python.sh ["address;undefined" | "thread"] [PYTEST ARGUMENTS]
# Needs g++, the development dependencies, and PYTHON (default python3) that has them.
set -eu
cd "$(dirname "$0")/.."

sanitizers=${1:-address;undefined}
[ $# -eq 0 ] || shift
python=${PYTHON:-python3}
name=$(printf '%s' "$sanitizers" | tr -c 'a-z' '-')
build=build/python-$name

# A build directory of its own: its cache must not reach an ordinary build.
# Unstripped, so that a report names lines.
rm -rf "$build/wheel" "$build/unpacked"
"$python" -m pip wheel ./ --quiet --no-deps --no-build-isolation --disable-pip-version-check \
  --wheel-dir "$build/wheel" \
  --config-settings=build-dir="$build/cmake" \
  --config-settings=install.strip=false \
  --config-settings=cmake.build-type=RelWithDebInfo \
  --config-settings=cmake.define.ZEPHON_SANITIZE="$sanitizers"
"$python" -m zipfile -e "$build"/wheel/zephon-*.whl "$build/unpacked"

# The interpreter is not instrumented, so the runtime has to be there before it.
# libstdc++ as well: ASan finds the throwing functions it wraps at its start.
library() { "${CXX:-g++}" -print-file-name="$1"; }
case $sanitizers in
  *thread*) preload=$(library libtsan.so) ;;
  *) preload="$(library libasan.so) $(library libstdc++.so)" ;;
esac

# CPython frees only part of its memory at exit, hence no leak check; with
# pymalloc the sanitizer would see arenas instead of objects.
export ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc PYTHONPATH="$PWD/$build/unpacked"
[ $# -gt 0 ] || set -- tests/native
LD_PRELOAD=$preload "$python" -P -c "
import zephon._native.collate as module
assert module.__file__.startswith('$PWD/$build/unpacked'), module.__file__
"
exec env LD_PRELOAD="$preload" "$python" -P -m pytest -q -p no:cacheprovider "$@"
