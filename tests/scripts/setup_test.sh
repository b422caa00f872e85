#!/bin/sh
# tools/setup on machines that are not this one: every program it asks is a stand-in here.
set -eu

setup=$(cd "$(dirname "$0")/../.." && pwd)/tools/setup
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"

fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# stand_in NAME SCRIPT
stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
  chmod +x "$work/bin/$1"
}

# A bare system: what tools/setup itself needs, and nothing of what it looks for.
for tool in sh cat cut sed sort tr head grep ls rm mktemp env printf; do
  ln -s "$(command -v "$tool" || echo /usr/bin/"$tool")" "$work/bin/$tool"
done

# Runs tools/setup; leaves its exit code in $code and its output in $work/out and $work/err.
run() {
  code=0
  PATH=$work/bin "$work/bin/sh" "$setup" "$@" >"$work/out" 2>"$work/err" || code=$?
}
expect_code() { [ "$code" = "$1" ] || fail "exit code $code, not $1: $(cat "$work/out" "$work/err")"; }
expect_in() { grep -qF -- "$2" "$work/$1" || fail "'$2' is not in: $(cat "$work/$1")"; }
expect_empty() { [ ! -s "$work/$1" ] || fail "expected nothing, got: $(cat "$work/$1")"; }

# Not Debian: names the programs.
run build
expect_code 1
expect_in err 'g++ ninja'
expect_in err 'cmake'

# Debian, nothing installed, nobody who may install: exactly one line to run.
stand_in dpkg-query ''
stand_in apt-cache '[ "$2" != clang-19 ]'
stand_in apt-get 'echo "$@" >>"${0%/*}/../apt.log"'
stand_in id 'echo 1000'
run build
expect_code 1
[ "$(cat "$work/out")" = 'apt-get update && apt-get install -y --no-install-recommends cmake g++ ninja-build' ] ||
  fail "not the line to run: $(cat "$work/out")"
[ ! -e "$work/apt.log" ] || fail 'called apt-get without being allowed to'

# A sudo that would ask for a password is of no use; one that does not is used.
stand_in sudo '[ "$1" != -n ]'
run build
expect_code 1
stand_in sudo 'if [ "$1" = -n ]; then exit 0; fi; exec "$@"'
run build
expect_code 0
grep -q 'install -y --no-install-recommends cmake g++ ninja-build' "$work/apt.log" || fail 'did not install'
! grep -q 'update' "$work/apt.log" || fail 'updated the lists without need'

# Root; something optional that this release does not have is skipped with a word.
rm "$work/apt.log" "$work/bin/sudo"
stand_in id 'echo 0'
run compilers
expect_code 0
expect_in err 'clang-19 is not in this release'
grep -q 'install .*clang-14' "$work/apt.log" || fail 'did not install clang-14'
! grep -q 'install .*clang-19' "$work/apt.log" || fail 'tried to install clang-19'

# The sanitizers of the clang that this release's package needs, not of those it once replaced.
stand_in apt-cache 'printf "Package: %s\nReplaces: clang-3.2, clang-3.3\nDepends: clang-15 (>= 15~)\nBreaks: clang-3.2\n" "$2"'
run tsan
expect_code 0
grep -q 'install .*libclang-rt-15-dev' "$work/apt.log" || fail "not libclang-rt-15-dev: $(cat "$work/apt.log")"

# No package lists yet: they are fetched first.
rm "$work/apt.log"
stand_in apt-cache 'false'
run build
expect_code 0
head -n 1 "$work/apt.log" | grep -q 'update$' || fail 'did not update first'

# apt fails: its own words are shown.
stand_in apt-get 'echo "E: no network" >&2; exit 100'
run build
expect_code 1
expect_in err 'E: no network'

# All there, as packages or as programs: silent.
stand_in dpkg-query 'printf "g++ installed\ncmake:amd64 installed\n"'
stand_in ninja ''
run build
expect_code 0
expect_empty out
expect_empty err

# A package that was removed and left its configuration is not there.
rm "$work/bin/ninja"
stand_in dpkg-query 'printf "g++ installed\ncmake installed\nninja-build config-files\n"'
stand_in id 'echo 1000'
run build
expect_code 1
expect_in out 'recommends ninja-build'

run no_such_group
expect_code 2
expect_in err 'no_such_group'
echo 'ok'
