#!/bin/bash
# install_test.sh — what `make install` installs can be used: C programs find it with pkg-config, shared and static.
set -uo pipefail # hence no grep -q behind a pipe: what it no longer reads fails who writes it
build=$MINIRAY_TEST_BUILD
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
failed=0
check() { # WHAT COMMAND…
    local what=$1
    shift
    if "$@" >"$stage/log" 2>&1; then
        echo "ok - $what"
    else
        echo "not ok - $what"
        cat "$stage/log"
        failed=1
    fi
}

cat >"$stage/hello.c" <<'END'
#include <miniray/status.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    printf("miniray %s\n", mr_version());
    return strcmp(mr_status_name(MR_TIMEOUT), "TIMEOUT") != 0;
}
END
# A name of ours that is not public must be free for the program.
cat >"$stage/static.c" <<'END'
#include <miniray/status.h>
int error_set(void);
int error_set(void) { return 0; }
int main(void) { return error_set() + (mr_version() == 0); }
END

DESTDIR=$stage/root meson install -C "$build" --no-rebuild --quiet >"$stage/log" 2>&1 || { cat "$stage/log"; echo "not ok - install"; exit 1; }
pc=$(find "$stage/root" -name miniray.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$stage/root LD_LIBRARY_PATH=$libdir

shared_program() {
    # shellcheck disable=SC2046 # several flags
    cc -Wall -Werror -o "$stage/hello" "$stage/hello.c" $(pkg-config --cflags --libs miniray) && "$stage/hello" &&
        ldd "$stage/hello" | grep libminiray
}
static_program() {
    rm "$libdir"/libminiray.so*
    # shellcheck disable=SC2046
    cc -Wall -Werror -o "$stage/static" "$stage/static.c" $(pkg-config --cflags --static --libs miniray) &&
        "$stage/static" && ! ldd "$stage/static" | grep libminiray
}
installed_command() { "$(find "$stage/root" -path '*/bin/miniray')" version | grep "$(pkg-config --modversion miniray)"; }
only_public_headers() { [ -z "$(find "$stage/root" -name '*.h' ! -path '*/include/miniray/*')" ]; }
no_paths_of_this_machine() { ! grep -rqF "$MINIRAY_TEST_SOURCE" "$stage/root"; }

check "a program with the shared library" shared_program
check "the command says its version" installed_command
check "only public headers are installed" only_public_headers
check "nothing installed knows where it was built" no_paths_of_this_machine
check "a program with the static library, whose names do not meet ours" static_program
exit $failed
