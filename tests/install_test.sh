#!/bin/bash
# install_test.sh — the installation of `make install` works: C programs find it with pkg-config, shared and static.
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
# A program may define an internal name of the library.
cat >"$stage/static.c" <<'END'
#include <miniray/status.h>
int error_set(void);
int error_set(void) { return 0; }
int main(void) { return error_set() + (mr_version() == 0); }
END

# Tasks in shared objects: one that the program is linked with, one that it loads.
cat >"$stage/linked.c" <<'END'
#include <miniray/runtime.h>
MR_TASK(in_a_linked_object) { return mr_return(call, mr_int(40)); }
END
cat >"$stage/loaded.c" <<'END'
#include <miniray/runtime.h>
MR_TASK(in_a_loaded_object) { return mr_return(call, mr_int(2)); }
END
cat >"$stage/objects.c" <<'END'
#include <dlfcn.h>
#include <miniray/runtime.h>
#include <stdio.h>
static mr_status ask(mr_context *mr, const char *name, int64_t *out) {
    mr_ref ref;
    mr_value value;
    MR_TRY(mr_call_task(mr, name, &ref));
    MR_TRY(mr_get(mr, ref, MR_FOREVER, &value));
    return mr_value_int(&value, out);
}
int main(void) {
    mr_context *mr;
    int64_t a = 0, b = 0;
    if (dlopen("libloaded.so", RTLD_NOW) == NULL) return 2;
    if (mr_init(&MR_OPTIONS(mr_options, .num_workers = 1), &mr) != MR_OK || ask(mr, "in_a_linked_object", &a) != MR_OK ||
        ask(mr, "in_a_loaded_object", &b) != MR_OK)
        return fprintf(stderr, "%s\n", mr_last_error()), 1;
    mr_shutdown(mr);
    return a + b != 42;
}
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
shared_objects() {
    # shellcheck disable=SC2046
    for name in linked loaded; do
        cc -Wall -Werror -shared -fPIC -o "$stage/lib$name.so" "$stage/$name.c" $(pkg-config --cflags --libs miniray) || return 1
    done
    # shellcheck disable=SC2046
    cc -Wall -Werror -o "$stage/objects" "$stage/objects.c" -Wl,--no-as-needed -L"$stage" -llinked -Wl,-rpath,"$stage" \
        $(pkg-config --cflags --libs miniray) -ldl && TMPDIR=$stage "$stage/objects"
}
# The same program in two languages; C++11 is the oldest one.
every_language() {
    local source=$MINIRAY_TEST_SOURCE/tests/headers/api_use.c
    # shellcheck disable=SC2046
    cc -std=c11 -Wall -Werror -o "$stage/use" "$source" $(pkg-config --cflags --libs miniray) && TMPDIR=$stage "$stage/use" || return 1
    command -v g++ >/dev/null || return 0
    # shellcheck disable=SC2046
    g++ -x c++ -std=c++11 -Wall -Werror -o "$stage/use++" "$source" $(pkg-config --cflags --libs miniray) && TMPDIR=$stage "$stage/use++"
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
check "tasks in shared objects" shared_objects
check "the macros and options in C and C++" every_language
check "the command says its version" installed_command
check "only public headers are installed" only_public_headers
check "nothing installed knows where it was built" no_paths_of_this_machine
check "a program with the static library, whose names do not meet ours" static_program
exit $failed
