#!/usr/bin/env bash
# The installed library, static and shared, as its users meet it.
#
#   package_test.sh BUILD_DIR SOURCE_DIR
#
# Installs the build into a folder of its own, builds and runs a program against it by
# find_package and by pkg-config, and looks at the binaries: the shared library exports nothing
# but the public API, and nothing asks for an executable stack. Needs a finished static build.
set -euo pipefail

build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

# Shows the output of a command only when it fails.
quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; fail "$*"; }; }

from_cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

compiler=$(from_cache CMAKE_CXX_COMPILER)
version=$(from_cache CMAKE_PROJECT_VERSION)
settings=(-G Ninja "-DCMAKE_CXX_COMPILER=$compiler" "-DCMAKE_BUILD_TYPE=$(from_cache CMAKE_BUILD_TYPE)")

expect_version() {  # program, what it is
  local printed
  printed=$("$1") || fail "the program built by $2 does not run"
  [ "$printed" = "$version" ] || fail "headers say $printed, the package $version ($2)"
  echo "ok: $2"
}

try_cmake() {  # prefix
  quietly cmake -S "$source/tests/package" -B "$1/consumer" "${settings[@]}" "-DCMAKE_PREFIX_PATH=$1"
  quietly cmake --build "$1/consumer"
  expect_version "$1/consumer/consumer" "find_package, $(basename "$1")"
}

try_pkg_config() {  # prefix
  if ! command -v pkg-config >/dev/null; then
    echo "skipped: no pkg-config here"
    return
  fi
  local pc flags libdir
  pc=$(find "$1" -name magpie.pc)
  export PKG_CONFIG_PATH=${pc%/*}
  [ "$(pkg-config --modversion magpie)" = "$version" ] || fail "magpie.pc has the wrong version"
  libdir=$(pkg-config --variable=libdir magpie)
  case $(realpath -m "$libdir") in
    "$1"/*) ;;
    *) fail "magpie.pc points to $libdir: it does not follow the package when that is moved" ;;
  esac
  read -ra flags <<<"$(pkg-config --cflags --libs magpie)"
  quietly "$compiler" -std=c++20 "$source/tests/package/consumer.cpp" "${flags[@]}" \
    "-Wl,-rpath,$libdir" -o "$1/by_pkg_config"
  expect_version "$1/by_pkg_config" "pkg-config, $(basename "$1")"
}

expect_tool() {  # prefix
  [ "$("$1/bin/magpie" --version)" = "magpie $version" ] || fail "the tool of $(basename "$1") does not run"
  echo "ok: the tool, $(basename "$1")"
}

expect_no_executable_stack() {  # program or shared library ...
  local file header
  for file; do
    header=$(readelf -lW "$file" | grep GNU_STACK) || fail "$file does not say what its stack may do"
    [[ $header =~ \ RW\  ]] || fail "$file makes the stack executable: $header"
  done
  echo "ok: no executable stack"
}

# An object without the note makes the stack of every program that links it executable.
expect_stack_notes() {  # static library
  local members notes
  members=$(ar t "$1" | wc -l)
  notes=$(readelf -SW "$1" | grep -c '\.note\.GNU-stack' || true)
  [ "$members" = "$notes" ] || fail "$1: $members objects, but $notes with .note.GNU-stack"
  ! readelf -SW "$1" | grep '\.note\.GNU-stack.* X ' || fail "$1 asks for an executable stack"
  echo "ok: every object has .note.GNU-stack"
}

# Of the standard library's templates the compiler leaves weak copies; they are everybody's.
expect_only_public_symbols() {  # shared library
  local exported private
  exported=$(nm -DC --defined-only "$1" | cut -d ' ' -f 2-)
  grep -q ' magpie::cpu_count()' <<<"$exported" || fail "$1 does not export cpu_count()"
  private=$(grep -Ev '^[TRVWB] ((typeinfo|typeinfo name|vtable) for )?magpie::[a-z_:]+' <<<"$exported" |
            grep -Ev '^[VWu] .*(std|__gnu_cxx)::' || true)
  # magpie::detail is what the public templates call; the runtime's inside is magpie::rt.
  private+=$(grep -E '^[A-Za-z] ([a-z ]*for )?magpie::rt::' <<<"$exported" || true)
  [ -z "$private" ] || fail "$1 exports what is not public:"$'\n'"$private"
  echo "ok: $(wc -l <<<"$exported") exported symbols, all public"
}

static=$work/static
quietly cmake --install "$build" --prefix "$static"
try_cmake "$static"
try_pkg_config "$static"
expect_tool "$static"
expect_stack_notes "$(find "$static" -name libmagpie.a)"
expect_no_executable_stack "$static/consumer/consumer"

# Kept between runs: only what changed is compiled again.
shared=$work/shared
quietly cmake -S "$source" -B "$build/package-shared" "${settings[@]}" \
  -DBUILD_SHARED_LIBS=ON -DMAGPIE_TESTS=OFF -DMAGPIE_EXAMPLES=OFF
quietly cmake --build "$build/package-shared" -j 2
quietly cmake --install "$build/package-shared" --prefix "$shared"
try_cmake "$shared"
try_pkg_config "$shared"
expect_tool "$shared"
library=$(find "$shared" -name 'libmagpie.so.*.*')
expect_only_public_symbols "$library"
expect_no_executable_stack "$library" "$shared/consumer/consumer"
