#!/usr/bin/env bash
# Builds and runs the fiber tests over compilers and flags. The switch saves what the compiler
# says is live, so every optimiser and every code model is a new opponent. And reads the public
# headers, with a program that uses most of them, as each compiler's users do.
#
#   JOBS=2 COMPILERS='g++-12 clang++-14' compilers.sh    all flags, all fiber tests: `make compilers`
#   compilers.sh BUILD_DIR                               some flags, the tests of the switch, with
#                                                        base and os taken from that build
#
# A compiler that is not installed is skipped with a word.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

short_of=${1:-}
jobs=${JOBS:-$(nproc)}
compilers=${COMPILERS:-g++-12 g++ clang++-14 clang++-19}
if [ -z "$short_of" ]; then
  output=build/compilers
  flag_sets=(
    "-O0"
    "-O1"
    "-O2"
    "-O3"
    "-O2 -flto"
    "-O2 -fPIC"
    "-O2 -fno-omit-frame-pointer"
    "-O2 -fomit-frame-pointer"
    "-O2 -march=native"
    "-O2 -fstack-protector-all -fstack-clash-protection"
  )
else
  output=$short_of/compilers
  flag_sets=(
    "-O0 -fPIC"
    "-O2 -flto"
    "-O3 -march=native -fomit-frame-pointer -fstack-protector-all"
  )
fi

# Everything, by cmake. Build type None adds no flags of its own.
build_and_run() {  # directory, compiler, flags
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_COMPILER=$2" \
    "-DCMAKE_CXX_FLAGS=-g $3" -DMAGPIE_EXAMPLES=OFF &&
    ninja -C "$1" -j "$jobs" unit_fiber_test &&
    "$1/tests/unit_fiber_test" --gtest_brief=1
}

from_cache() { sed -n "s/^$1:[A-Z]*=//p" "$short_of/CMakeCache.txt"; }

# Only what the compiler's choices matter for. Compiled again only after a change.
build_and_run_short() {  # directory, compiler, flags
  local program=$1/switch_test flags gtest
  mkdir -p "$1"
  if [ ! -x "$program" ] ||
     [ -n "$(find src/base src/os src/fiber tests/unit/fiber tests/support tests/scripts/compilers.sh \
               -newer "$program" -print -quit)" ]; then
    # Debug checks change the layout of some structures: as in the build the rest comes from.
    read -ra flags <<<"$3 $(if [ "$(from_cache CMAKE_BUILD_TYPE)" = Release ]; then echo -DNDEBUG; fi)"
    gtest=$(from_cache GTest_DIR)
    "$2" -std=c++20 "${flags[@]}" -Isrc -Iinclude -Itests src/fiber/*.cpp "src/fiber/entry_$(uname -m).S" \
      tests/unit/fiber/switch_test.cpp "$short_of/libmagpie.a" \
      -L"${gtest%/cmake/GTest}" -lgtest -lgtest_main -ldl -pthread -o "$program" || return 1
  fi
  "$program" --gtest_brief=1
}

try() {  # compiler, flags
  local directory name="$1 $2" way=build_and_run${short_of:+_short}
  directory=$output/$(tr -c 'a-zA-Z0-9\n' _ <<<"$name")
  if $way "$directory" "$1" "$2" >"$directory.log" 2>&1; then
    echo "ok      $name"
  else
    echo "FAILED  $name: see $directory.log"
    if [ -n "$short_of" ]; then tail -n 30 "$directory.log"; fi
  fi
}

read_headers() {  # compiler
  local name="$1 public headers"
  local log=$output/$(tr -c 'a-zA-Z0-9\n' _ <<<"$name").log
  if "$1" -std=c++20 -Wall -Wextra -Werror -Iinclude -fsyntax-only examples/tour.cpp >"$log" 2>&1; then
    echo "ok      $name"
  else
    echo "FAILED  $name:" && head -n 30 "$log"
  fi
}

mkdir -p "$output"
results=$output/results
: >"$results"
seen=' '
for compiler in $compilers; do
  if ! program=$(command -v "$compiler"); then
    echo "skipped $compiler: not installed" | tee -a "$results"
    continue
  fi
  # g++ is often the same program as g++-12.
  program=$(readlink -f "$program")
  [[ $seen != *" $program "* ]] || continue
  seen+="$program "
  read_headers "$compiler" | tee -a "$results"
  for flags in "${flag_sets[@]}"; do
    if [ -z "$short_of" ]; then
      try "$compiler" "$flags" | tee -a "$results"
    else  # each is one compiler after the other, so several at once
      while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
      try "$compiler" "$flags" | tee -a "$results" &
    fi
  done
done
wait

count() { grep -c "^$1" "$results"; }
echo "$(count ok) passed, $(count FAILED) failed, $(count skipped) compilers skipped"
! grep -q '^FAILED' "$results" && grep -q '^ok' "$results"
