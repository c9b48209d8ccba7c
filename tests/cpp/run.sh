#!/bin/sh
# Builds the C++ core and its unit tests with plain CMake and runs them:
#     tests/cpp/run.sh [SANITIZERS]      e.g. "address;undefined" or "thread"
# Needs cmake, ctest and a C++20 compiler on PATH; takes ninja where there is one.
set -eu
cd "$(dirname "$0")/../.."

sanitizers=${1:-}
build=build/cpp-$(printf '%s' "${sanitizers:-plain}" | tr -c 'a-z' '-')
type=Release
# Reports need symbols; unoptimised code would be slow under a sanitizer.
[ -z "$sanitizers" ] || type=RelWithDebInfo
# The generator of an existing build directory cannot be changed; keep to it.
if [ ! -f "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
  export CMAKE_GENERATOR=Ninja
fi

cmake -S . -B "$build" -DCMAKE_BUILD_TYPE="$type" -DZEPHON_CPP_TESTS=ON -DZEPHON_WERROR=ON \
  -DZEPHON_SANITIZE="$sanitizers"
cmake --build "$build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}"
ctest --test-dir "$build" --output-on-failure --no-tests=error
