#!/usr/bin/env bash
# Builds and runs the fiber tests over compilers and flags: `make compilers`.
#
#   JOBS=2 COMPILERS='g++-12 clang++-14' tests/scripts/compilers.sh
#
# The switch saves what the compiler says is live, so every optimiser and every code model is a
# new opponent. A compiler that is not installed is skipped with a word.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

compilers=${COMPILERS:-g++-12 g++ clang++-14 clang++-19}
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

passed=0
failed=()
skipped=()
seen=' '

build_and_run() {  # directory, compiler, flags
  # Build type None adds no flags of its own.
  cmake -S . -B "$1" -G Ninja -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_COMPILER=$2" \
    "-DCMAKE_CXX_FLAGS=-g $3" -DMAGPIE_EXAMPLES=OFF &&
    ninja -C "$1" -j "${JOBS:-$(nproc)}" unit_fiber_test &&
    "$1/tests/unit_fiber_test" --gtest_brief=1
}

try() {  # compiler, flags
  local directory name="$1 $2"
  directory=build/compilers/$(tr -c 'a-zA-Z0-9\n' _ <<<"$name")
  mkdir -p build/compilers
  if build_and_run "$directory" "$1" "$2" >"$directory.log" 2>&1; then
    passed=$((passed + 1))
    echo "ok      $name"
  else
    failed+=("$name")
    echo "FAILED  $name: see $directory.log"
  fi
}

for compiler in $compilers; do
  if ! program=$(command -v "$compiler"); then
    echo "skipped $compiler: not installed"
    skipped+=("$compiler")
    continue
  fi
  # g++ is often the same program as g++-12.
  program=$(readlink -f "$program")
  [[ $seen != *" $program "* ]] || continue
  seen+="$program "
  for flags in "${flag_sets[@]}"; do try "$compiler" "$flags"; done
done

echo "$passed passed, ${#failed[@]} failed, ${#skipped[@]} compilers skipped"
[ ${#failed[@]} = 0 ]
