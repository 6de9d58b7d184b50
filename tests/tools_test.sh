#!/bin/bash
# tools_test.sh — each check detects the mistakes for which it is made.
set -uo pipefail
tools=$MINIRAY_TEST_SOURCE/tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

expect() { # STATUS PATTERN WHAT COMMAND…: it ends with that status and says something that matches
    local status=$1 pattern=$2 what=$3
    shift 3
    "$@" >"$work/log" 2>&1
    local got=$?
    if [ $got -eq "$status" ] && { [ -z "$pattern" ] || grep -q -- "$pattern" "$work/log"; }; then
        echo "ok - $what"
    else
        echo "not ok - $what (status $got, expected $status and '$pattern')"
        cat "$work/log"
        failed=1
    fi
}

# ---- build/env.
enter() { # SHELL LINES: in a shell with the system's own PATH that has read build/env
    env -u VIRTUAL_ENV PATH=/usr/bin:/bin "$1" -euc ". '$MINIRAY_TEST_BUILD/env'; $2"
}
for shell in bash dash; do
    expect 0 '^/' "env: python has the package, in $shell" enter $shell 'python -c "import miniray; print(miniray.__file__)"'
done
expect 0 '^3\.' "env: python3 is the same one" enter bash \
    'python3 -c "import miniray, platform; print(platform.python_version())" && miniray version >&2'
mkdir -p "$work/venv/bin"
printf '#!/bin/sh\necho my own\n' >"$work/venv/bin/python"
chmod +x "$work/venv/bin/python"
expect 0 '^my own' "env: a virtual environment keeps its python" env VIRTUAL_ENV="$work/venv" \
    PATH="$work/venv/bin:/usr/bin:/bin" bash -euc ". '$MINIRAY_TEST_BUILD/env'; python"

# ---- check-layers, on a small tree.
tree=$work/tree
mkdir -p "$tree"/{src/base,src/net/shm,include/miniray,tests/support}
cat >"$tree/src/LAYERS" <<'END'
base :
net  : base
<uv.h> : net
END
echo '#include <stdint.h>' >"$tree/include/miniray/status.h"
echo '#include "miniray/status.h"' >"$tree/src/base/a.h"
printf '#include "base/a.h"\n#include <uv.h>\n' >"$tree/src/net/shm/b.h"
touch "$tree/tests/support/child.h"
printf '#include "tests/support/child.h"\n' >"$tree/src/base/a_test.c"
layers() { # WHAT PATTERN PATH LINE: with this line in this file it fails
    local kept
    kept=$(cat "$tree/$3" 2>/dev/null)
    printf '%s\n' "$4" >>"$tree/$3"
    expect 1 "$2" "$1" "$tools/check-layers" "$tree"
    if [ -n "$kept" ]; then printf '%s\n' "$kept" >"$tree/$3"; else rm "$tree/$3"; fi
}
expect 0 ' 0 against' "layers: a tree that keeps the rule" "$tools/check-layers" "$tree"
layers "layers: a lower layer that looks up" 'base may not include net' src/base/a.h '#include "net/shm/b.h"'
layers "layers: a library out of its place" '<uv.h> is for net only' src/base/a.h '#include <uv.h>'
layers "layers: a path with dots" 'is not a path' src/net/shm/b.h '#include "../base/a.h"'
layers "layers: a public header that shows the inside" 'a public header includes "base' include/miniray/status.h '#include "base/a.h"'
layers "layers: a public header that needs the system" 'a public header includes <pthread' include/miniray/status.h '#include <pthread.h>'
layers "layers: test support outside of tests" 'base may not include tests' src/base/a.h '#include "tests/support/child.h"'
mkdir "$tree/src/net/rpc"
cat >>"$tree/src/LAYERS" <<'END'
net/shm : base
net/rpc : base net net/shm
store   : net
END
mkdir "$tree/src/store"
touch "$tree/src/net/e.h"
echo '#include "net/shm/b.h"' >"$tree/src/net/rpc/c.h"
echo '#include "net/rpc/c.h"' >"$tree/src/net/shm/b_test.c"
printf '#include "net/rpc/c.h"\n#include "net/shm/b.h"\n' >"$tree/src/store/d.h"
expect 0 ' 0 against' "layers: folders that keep the rule" "$tools/check-layers" "$tree"
layers "layers: a folder that looks up" 'net/shm may not include net/rpc' src/net/shm/b.h '#include "net/rpc/c.h"'
layers "layers: a folder that uses the one above" 'net/shm may not include net$' src/net/shm/b.h '#include "net/e.h"'
layers "layers: lines that form a cycle" 'a cycle: x/a > x/b > x/a$' src/LAYERS $'x/a : x/b\nx/b : net x/a'
layers "layers: a name without a line" "LAYERS:7: 'rpc' has no line" src/LAYERS 'cli : rpc'
layers "layers: two lines for a folder" 'LAYERS:7: a second line for net' src/LAYERS 'net : base'
mkdir "$tree/src/new"
layers "layers: a layer that nobody has stated" "'new' is not in" src/new/x.c '#include <stdio.h>'

# ---- check-imports, on a small package.
package=$work/python/miniray
mkdir -p "$package/low" "$package/high"
touch "$package/__init__.py" "$package/low/__init__.py" "$package/low/a.py" "$package/low/b.py" "$package/high/__init__.py"
echo 'from miniray.low import a, b' >"$package/high/c.py"
imports() { # WHAT PATTERN PATH TEXT: with this text in this file it fails
    printf "$4" >"$package/$3"
    expect 1 "$2" "$1" "$tools/check-imports" "$package"
    : >"$package/$3"
}
expect 0 '' "imports: a package without cycles" "$tools/check-imports" "$package"
imports "imports: sub-packages that use each other" 'miniray/low/a.py:2 imports miniray.high' low/a.py \
    'def f():\n    from miniray.high import c\n'
echo 'from . import b' >"$package/low/a.py"
imports "imports: modules that import each other" 'miniray/low/b.py:1 imports miniray.low.a' low/b.py \
    'import miniray.low.a\n'
printf 'from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import miniray.low.a\ndef f():\n    from miniray.low import a\n' \
    >"$package/low/b.py"
expect 0 '' "imports: for type checkers, and later within a sub-package" "$tools/check-imports" "$package"

# ---- check-docstrings, on the same package.
printf '"""A module."""\n' | tee "$package/__init__.py" "$package/low/__init__.py" "$package/high/__init__.py" >"$package/low/a.py"
rm "$package/low/b.py" "$package/high/c.py"
printf '"""A module."""\nclass C:\n    """A class."""\n    def _own(self): pass\n' >"$package/low/a.py"
expect 0 '' "docstrings: a package that has them" "$tools/check-docstrings" "$package"
printf '    def method(self): pass\n' >>"$package/low/a.py"
expect 1 'a.py:5: C.method has no docstring' "docstrings: a method without one" "$tools/check-docstrings" "$package"
printf '"""What it has."""\n' >"$package/low/a.py"
expect 1 "begins with 'What'" "docstrings: a riddle" "$tools/check-docstrings" "$package"

# ---- check-headers, if there is a C++ compiler that it accepts.
if command -v g++ clang++ >/dev/null; then
    echo 'size_t needs_stddef(void);' >"$tree/src/base/bad.h"
    expect 1 'src/base/bad.h does not compile alone' "headers: one that needs another" "$tools/check-headers" "$tree"
    rm "$tree/src/base/bad.h"
    printf '#include "base/a.h"\n' >"$tree/src/net/shm/b.h"
    expect 0 'compilations' "headers: a clean tree" "$tools/check-headers" "$tree"
    echo 'int new;' >"$tree/include/miniray/status.h"
    expect 1 'c++17' "headers: a public one that is no C++" "$tools/check-headers" "$tree"
    echo >"$tree/include/miniray/status.h"
    mkdir -p "$tree/tests/headers"
    echo 'int main(void) { int *none = (void *)0; return none != (void *)0; }' >"$tree/tests/headers/api_use.c"
    expect 1 'g++ -std=c++11' "headers: a program that is C only" "$tools/check-headers" "$tree"
    rm -r "$tree/tests/headers"
fi

# ---- c-api, on copies of the headers.
mkdir -p "$work/api/include" "$work/api/docs"
cp -r "$MINIRAY_TEST_SOURCE/include/miniray" "$work/api/include"
expect 1 'run tools/c-api' "C reference: a page that is missing" "$tools/c-api" --check "$work/api"
expect 0 '' "C reference: a page is written" "$tools/c-api" "$work/api"
expect 0 '' "C reference: it is what the headers say" "$tools/c-api" --check "$work/api"
sed -i 's/mr_version(void)/mr_version(int)/' "$work/api/include/miniray/status.h"
expect 1 'run tools/c-api' "C reference: a header that has changed since" "$tools/c-api" --check "$work/api"

# ---- check-exports.
exports() { # FUNCTION [VALUE]: a library with that function, which returns the value
    cat >"$tree/x.c" <<END
extern const char *mutation_now;
const char *$1(void);
const char *$1(void) { return ${2:-0}; }
END
    cc -fPIC -c -o "$tree/x.o" "$tree/x.c" && cc -shared -o "$tree/build/libminiray.so" "$tree/x.o" &&
        rm -f "$tree/build/libminiray.a" && ar rcs "$tree/build/libminiray.a" "$tree/x.o"
    (cd "$tree" && "$tools/check-exports" build)
}
mkdir -p "$tree/include/miniray" "$tree/src" "$tree/build/sim" "$tree/build/python/miniray"
echo 'MR_API int mr_one(void);' >"$tree/include/miniray/status.h"
echo 'if (MUTATED("no-epoch")) return;' >"$tree/src/z.c"
echo 'int puts(const char *); const char *mutation_now; int main(void) { return !puts("  --mutate no-epoch"); }' >"$tree/sim.c"
cc -o "$tree/build/sim/miniray-sim" "$tree/sim.c"
touch "$tree/build/miniray" "$tree/build/python/miniray/_core.so"
expect 0 '' "exports: only mr_*" exports mr_one
expect 1 'not mr_' "exports: a name of the inside" exports ring_create
expect 1 'declared in include/miniray, not exported' "exports: a declared function that is missing" exports mr_two
expect 1 'libminiray.so has code for the simulator' "exports: the variable of mutations" exports mr_one mutation_now
expect 1 '^no-epoch' "exports: the name of a mutation" exports mr_one '"no-epoch"'
echo 'if (MUTATED("no-level")) return;' >>"$tree/src/z.c"
expect 1 'no scenario lists' "exports: a mutation that no scenario has" exports mr_one
cc -Dmutation_now=other -o "$tree/build/sim/miniray-sim" "$tree/sim.c"
expect 1 'miniray-sim has no mutations' "exports: a simulator without mutations" exports mr_one

# ---- check-abi, on a library of two functions, where abidiff is installed.
if command -v abidiff >/dev/null; then
    mkdir -p "$work/abi/tools" "$work/abi/include" "$work/abi/old" "$work/abi/build"
    cp "$tools/check-abi" "$tools/abi-changes" "$work/abi/tools"
    library() { # FOLDER HEADERS FIELDS [FUNCTION]: libminiray.so with mr_options of these fields and, perhaps, one function more
        printf 'struct mr_options { %s };\nint mr_start(const struct mr_options *options);\n%s\n' "$3" "${4:+int $4(void);}" >"$2/miniray.h"
        printf '#include "%s/miniray.h"\nint mr_start(const struct mr_options *options) { return (int)options->size; }\n%s\n' \
            "$2" "${4:+int $4(void) { return 1; \}}" >"$work/abi/library.c"
        ${CC:-cc} -g -shared -fPIC -Wl,-soname,"${soname:-libminiray.so.1.0}" "$work/abi/library.c" -o "$1/libminiray.so"
    }
    abi() { # WHAT STATUS PATTERN FIELDS [FUNCTION]: this library after one of which mr_options has two fields
        library "$work/abi/build" "$work/abi/include" "${@:4}"
        expect "$2" "$3" "abi: $1" "$work/abi/tools/check-abi" "$work/abi/build" "$work/abi/old/libminiray.so" "$work/abi/old"
    }
    library "$work/abi/old" "$work/abi/old" 'unsigned long size; long cpus;' mr_stop
    abi "no change" 0 'libminiray.so.1.0: as in the last release' 'unsigned long size; long cpus;' mr_stop
    abi "a field at the end of options" 0 'as in the last release' 'unsigned long size; long cpus; long gpus;' mr_stop
    abi "a field between others" 1 'raise the minor version' 'unsigned long size; long gpus; long cpus;' mr_stop
    abi "a function less" 1 'raise the minor version' 'unsigned long size; long cpus;'
    soname=libminiray.so.1.1 abi "another SONAME" 0 'programs are linked again' 'unsigned long size;'
else
    echo "skipped: check-abi needs abidiff (Debian: abigail-tools)"
fi

# ---- check-globals.
globals() { # a module with this line
    mkdir -p "$tree/build/libminiray-core.a.p"
    printf '%s\nint *user(void); int *user(void) { return (int *)&kept; }\n' "$1" >"$tree/y.c"
    cc -fPIC -c -o "$tree/build/libminiray-core.a.p/_x_src_net_y.c.o" "$tree/y.c"
    "$tools/check-globals" "$tree/build"
}
expect 0 '1 objects' "globals: a constant" globals 'static int *const kept = 0;'
expect 0 '1 objects' "globals: a constant with an address" globals 'int other(void); static int (*const kept)(void) = other;'
expect 1 'net_y.c has a variable of its own: kept' "globals: a variable" globals 'static int kept;'
expect 1 'kept' "globals: a variable with a value" globals 'int kept = 1;'
expect 1 'kept' "globals: a variable of each thread" globals 'static _Thread_local int kept;'

# ---- check-dead, on a library of one module.
mkdir -p "$work/dead"/{build,src/base,include}
printf '{\n global: mr_*;\n local: *;\n};\n' >"$work/dead/src/exports.map"
cat >"$work/dead/build/build.ninja" <<'END'
rule archive
  command = cc -O0 -fPIC -ffunction-sections -fdata-sections -I../src -c -o _my_src_base_a.c.o ../src/base/a.c && ar rcs $out _my_src_base_a.c.o
build libminiray-sections.a: archive ../src/base/a.c ../src/base/a.h ../src/base/b.h
END
dead() { # LIST LINE…: the module with these lines, which src/UNUSED lists so
    printf '%s\n' "$1" >"$work/dead/src/UNUSED"
    shift
    printf '%s\n' '#include "base/a.h"' '#include "base/b.h"' 'int a_used(void) { return b_used(); }' \
        'int mr_a(void) { return a_used(); }' "$@" >"$work/dead/src/base/a.c"
    "$tools/check-dead" "$work/dead/build" "$work/dead"
}
printf '%s\n' 'int mr_a(void);' 'int a_used(void);' >"$work/dead/src/base/a.h"
echo 'static inline int b_used(void) { return 1; }' >"$work/dead/src/base/b.h"
expect 0 ' 0 errors' "dead: everything is reached" dead ''
expect 1 'base/a: no product code reaches a_left' "dead: a function" dead '' 'int a_left(void) { return 1; }'
expect 1 'reaches a_lower' "dead: a function that only a dead one calls" dead '' \
    'int a_lower(void) { return 1; }' 'int a_left(void) { return a_lower(); }'
expect 1 'reaches a_table' "dead: a constant" dead '' 'const int a_table[2] = {1, 2};'
expect 0 ' 0 errors' "dead: a listed function, and what it needs" dead 'a_left why' \
    'int a_lower(void) { return 1; }' 'int a_left(void) { return a_lower(); }'
expect 1 "has no reason" "dead: a line without a reason" dead 'a_left' 'int a_left(void) { return 1; }'
expect 1 "UNUSED:1: product code reaches a_used" "dead: a listed function that is reached" dead 'a_used why'
expect 1 "UNUSED:1: 'a_gone' does not exist" "dead: a listed function that is gone" dead 'a_gone why'
expect 1 'product code reaches a_used, mr_a' "dead: a listed module that is reached" dead 'base/a why'
echo 'static inline int b_left(void) { return 1; }' >>"$work/dead/src/base/b.h"
expect 1 'base/b: no product code reaches b_left' "dead: an inline function" dead ''
echo '#define B_LEFT 1' >"$work/dead/src/base/b.h"
echo 'static inline int b_used(void) { return 1; }' >>"$work/dead/src/base/b.h"
expect 1 'reaches B_LEFT' "dead: a macro" dead ''

# ---- check-links.
echo 'See [a](a.md) and [b](https://example.org).' >"$tree/README.md"
expect 1 'a.md does not exist' "links: one that leads nowhere" "$tools/check-links" "$tree"
touch "$tree/a.md"
expect 0 ' 0 broken' "links: all lead somewhere" "$tools/check-links" "$tree"

# ---- check-tested.
mkdir -p "$work/tested"/{src/base,tests}
tested() { # COMMENT LINES: a module with this first comment, of so many lines besides
    { printf '%s\n' "$1"; yes 'int x;' | head -n "$2"; } >"$work/tested/src/base/a.c"
    "$tools/check-tested" "$work/tested"
}
expect 0 '0 files' "tested: a short file needs no test" tested '/* a.c — see a.h. */' 149
expect 1 'names no test' "tested: a long file without a test" tested '/* a.c — see a.h. */' 150
expect 1 'names tests/a_test.c, which is no test' "tested: a test that is not there" \
    tested '/* a.c — see a.h. Tested by tests/a_test.c. */' 150
expect 1 'which is no test' "tested: the same of a short file" tested '/* a.c — see a.h. Tested by tests/a_test.c. */' 1
touch "$work/tested/tests"/{a_test.c,notes.c}
expect 0 '0 mistakes' "tested: a test that is there" tested '/* a.c — see a.h. Tested by tests/a_test.c. */' 150
expect 1 'names tests/gone_test.c' "tested: one of two tests is not there" \
    tested $'/* a.c — see a.h. Tested by tests/a_test.c and\n * tests/gone_test.c. */' 150
expect 1 'names tests/notes.c' "tested: a file that is no test" tested '/* a.c — see a.h. Tested by tests/notes.c. */' 150
expect 1 'names no test' "tested: not in the first comment" tested $'/* a.c — see a.h. */\n/* Tested by tests/a_test.c. */' 150
touch "$work/tested/src/base/a_test.c"
expect 0 '1 files .* 0 mistakes' "tested: a test beside the file" tested '/* a.c — see a.h. */' 150

# ---- run-tests, on a build of one program, which runs the tests that $CASES names.
mkdir "$work/project"
cat >"$work/project/meson.build" <<'END'
project('x', 'c')
test('x', executable('x', 'main.c', dependencies: dependency('cmocka')), timeout: 2)
END
cat >"$work/project/main.c" <<'END'
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
static void good(void **state) {}
static void bad(void **state) { assert_int_equal(1, 2); }
static void crash(void **state) { abort(); }
static void off(void **state) { skip(); }
static void hang(void **state) { for (;;) sleep(1); }
static void leave(void **state) { if (fork() == 0) { setsid(); hang(state); } }
static void litter(void **state) { FILE *file = fopen(strcat(strcpy((char[256]){0}, getenv("TMPDIR")), "/litter"), "w"); fclose(file); }
int main(void) {
    const struct CMUnitTest all[] = {cmocka_unit_test(good),  cmocka_unit_test(bad),   cmocka_unit_test(crash), cmocka_unit_test(off),
                                     cmocka_unit_test(hang), cmocka_unit_test(leave), cmocka_unit_test(litter)};
    struct CMUnitTest tests[8];
    size_t count = 0;
    for (char *name = strtok(getenv("CASES"), " "); name != NULL; name = strtok(NULL, " "))
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            if (strcmp(all[i].name, name) == 0) tests[count++] = all[i];
    return count == 0 ? 0 : _cmocka_run_group_tests("cases", tests, count, NULL, NULL);
}
END
(cd "$work/project" && meson setup build && ninja -C build) >"$work/log" 2>&1 || { cat "$work/log"; echo "not ok - run-tests: set-up"; exit 1; }
runs() { CASES=$* "$tools/run-tests" "$work/project/build"; }

expect 0 '^run-tests BUILD_DIR' "run-tests: --help shows the usage" "$tools/run-tests" --help
expect 2 "^run-tests: unknown option '--halp'" "run-tests: an unknown option is an error" "$tools/run-tests" --halp
expect 2 "^run-tests: '/proc' is no build directory" "run-tests: so is another directory" "$tools/run-tests" /proc
expect 2 "^run-tests: --slowest needs a count" "run-tests: so is a missing count" "$tools/run-tests" --slowest build
expect 0 '^release: 2 passed, 0 failed$' "run-tests: counts what passed" runs good good
expect 1 '^release: 1 passed, 1 failed$' "run-tests: counts what failed" runs good bad
expect 1 '0x1 != 0x2' "run-tests: shows why" runs good bad
expect 1 '^release: 1 passed, 1 failed$' "run-tests: a crash fails" runs good crash good
expect 1 '^release: 0 passed, 1 failed$' "run-tests: a program without a test fails" runs
expect 0 '^release: 1 passed, 0 failed$' "run-tests: a skipped test is not a passed one" runs good off
expect 1 'ran out of time' "run-tests: a test that hangs fails" runs hang
expect 1 'a process was left behind' "run-tests: a daemon that stays fails" runs leave
expect 1 'files were left behind in $TMPDIR: litter' "run-tests: a file that stays fails" runs litter
mkdir "$work/project/tools"
printf '#!/bin/sh\necho "%s/src/net/new_test.c"\n' "$work/project" >"$work/project/tools/sources"
chmod +x "$work/project/tools/sources"
expect 1 'net/new has a test, but not in this build' "run-tests: a test that is not built fails" runs good

# ---- deps, with commands before the system's in PATH that only record their arguments.
mkdir "$work/bin"
stub() { # NAME LINES
    printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
deps() { PATH=$work/bin:$PATH "$tools/deps" "$@" </dev/null; }
expect 2 "no purpose is called 'nonsense'" "deps: an unknown purpose" "$tools/deps" nonsense
stub dpkg-query 'case "$*" in *meson*) echo "not-installed" ;; *) echo installed ;; esac'
stub apt-get "echo \"\$*\" >>$work/asked; case \$1 in update) touch $work/updated ;; *) [ -e $work/updated ] ;; esac"
stub id 'echo 1000'
stub sudo 'exit 1'
expect 1 'apt-get install --no-install-recommends meson$' "deps: says what to do where it cannot" deps build test
expect 1 'make deps' "deps: only tells with --check" deps --check build
[ ! -e "$work/asked" ] || { echo "not ok - deps: it asked apt-get all the same"; failed=1; }
stub id 'echo 0'
expect 0 'installing packages: meson$' "deps: installs as root, and fetches the lists when they are missing" deps build test
expect 0 '^install -y --no-install-recommends meson update install -y --no-install-recommends meson $' \
    "deps: asks apt-get for no more than that" tr '\n' ' ' <"$work/asked"
rm "$work/updated" "$work/asked"
stub apt-get 'exit 100'
expect 1 'apt-get could not' "deps: says so when apt-get fails" deps build
stub dpkg-query 'echo installed'
stub apt-get "touch $work/asked"
expect 0 '' "deps: nothing to do" deps build test check
[ ! -e "$work/asked" ] || { echo "not ok - deps: it asked apt-get for nothing"; failed=1; }

# ---- progress: steps of ninja go to descriptor 3, everything else to the output.
steps() { printf 'ninja: Entering directory\n[1/3] Compiling C object a/b_one.c.o\nwarning: x\n[2/3] Linking two\nFAILED: y\n'; }
expect 0 '^two-lines warning: x FAILED: y$' "progress: lines where no terminal is" bash -euc \
    "exec 3>'$work/steps'; kept=\$(\"\$0\" one 0); grep -c 'of 3 steps' '$work/steps' | sed 's/^2$/two-lines/' | tr '\n' ' '; echo \$kept" \
    "$tools/progress" < <(steps)
expect 0 '^none' "progress: few lines" bash -euc "exec 3>'$work/steps'; \"\$0\" one 3600 >/dev/null; [ ! -s '$work/steps' ]; echo none" \
    "$tools/progress" < <(steps)
on_terminal() {
    steps >"$work/steps"
    script -qec "exec 3>&1; '$tools/progress' one <'$work/steps' >/dev/null" /dev/null </dev/null | tr '\r' '\n'
}
expect 0 'one: 2 of 3 steps, two' "progress: one line that advances on a terminal" on_terminal

# ---- dist-check: the table of docs/install.md has its form.
page=$MINIRAY_TEST_SOURCE/docs/install.md
expect 0 '^[0-9]* rows$' "dist-check: the table of docs/install.md" "$tools/dist-check" --form
grep -v 'Debian 12' "$page" >"$work/page.md"
expect 1 'no row for Debian 12' "dist-check: a system without a row" "$tools/dist-check" --form "$work/page.md"
sed 's/| ✓ |$/|  |/' "$page" >"$work/page.md"
expect 1 'a row is incomplete' "dist-check: a row without a result" "$tools/dist-check" --form "$work/page.md"
expect 1 "no system is called 'windows'" "dist-check: a system that is not there" "$tools/dist-check" windows

# ---- roots: a system for another machine needs an emulator.
for command in arch-test mount; do stub $command 'exit 1'; done
stub tee 'exec cat >/dev/null'
stub id 'echo 0'
expect 1 'programs for arm64 do not run here: it needs qemu-user-static' "roots: no emulator" \
    env PATH="$work/bin:$PATH" "$tools/roots" make none debian-12-arm64

# ---- wheel_backend: what is missing to build the sources, and the next step.
backend() { # PATH CALL: of wheel_backend, in a folder of its own
    mkdir -p "$work/backend"
    (cd "$work/backend" && unset CC && PATH=$1 XDG_CACHE_HOME=$work/cache PIP_NO_INDEX=1 /usr/bin/python3 -B -c \
        "import sys; sys.path.insert(0, sys.argv[1]); import wheel_backend; $2" "$tools")
}
compiler() { # PATTERN: a folder with a C compiler that fails if the program contains it
    rm -rf "$work/cc" && mkdir "$work/cc"
    printf '#!/bin/sh\n! /usr/bin/grep -qF "%s" program.c || { echo "program.c:1: error"; exit 1; }\n' "$1" >"$work/cc/cc"
    chmod +x "$work/cc/cc"
}
compiler nothing
expect 1 'no C compiler (cc, gcc or clang) in PATH' "wheel_backend: no compiler" backend "$work/empty" 'wheel_backend.build_wheel(".")'
expect 1 'apt-get install gcc libc6-dev' "wheel_backend: the packages with a compiler" backend "$work/empty" 'wheel_backend.build_wheel(".")'
expect 1 "'/none/gcc', which CC names, is not in PATH" "wheel_backend: CC without a compiler" \
    backend "$work/cc" 'wheel_backend.os.environ["CC"] = "/none/gcc -m64"; wheel_backend.build_wheel(".")'
expect 1 'meson is not in PATH. Leave out --no-build-isolation' "wheel_backend: no meson" backend "$work/cc" 'wheel_backend.build_wheel(".")'
printf '#!/bin/sh\necho 1.0.1\n' | tee "$work/cc/meson" >"$work/cc/ninja"
chmod +x "$work/cc/meson" "$work/cc/ninja"
expect 1 'meson 1.0.1 does not know Python 3.12' "wheel_backend: an old meson" backend "$work/cc" \
    'sys.version_info = (3, 12); wheel_backend.build_wheel(".")'
compiler main
expect 1 'cc cannot compile a program: correct the compiler' "wheel_backend: a broken compiler" \
    backend "$work/cc" 'wheel_backend.build_wheel(".")'
compiler '#include <features.h>'
expect 1 'does not find the headers of the C library' "wheel_backend: no libc6-dev" backend "$work/cc" 'wheel_backend.build_wheel(".")'
compiler __GLIBC__
expect 1 'compiles for another C library than glibc' "wheel_backend: another C library" backend "$work/cc" 'wheel_backend.build_wheel(".")'
compiler '#include <Python.h>'
expect 1 'does not find the headers of Python (Python.h in ' "wheel_backend: no python3-dev" backend "$work/cc" 'wheel_backend.build_wheel(".")'
expect 1 'it needs Linux and CPython; this is cpython on darwin' "wheel_backend: another system" \
    backend "$work/cc" 'sys.platform = "darwin"; wheel_backend.build_wheel(".")'
expect 0 'is without libraries .* libuv1_.*: PIP_NO_INDEX forbids' "wheel_backend: sources without the libraries" \
    backend "$PATH" 'wheel_backend.build_sdist(".")'

# ---- build: the targets of `make run` and `make` compile nothing else.
compiled() { # TARGET: the folders of its objects
    ninja -C "$MINIRAY_TEST_BUILD" -t commands "$1" | sed -nE 's|.* -o ([a-z-]+)[./].* -c .*|\1|p' | sort -u | tr '\n' ' '
}
expect 0 '^libminiray-core miniray python $' "build: make run compiles the library, the command and the package" compiled package
expect 0 '^examples libminiray-core miniray python $' "build: make compiles the examples, too" compiled product

# ---- Wrong arguments are rejected at once, before anything is built.
expect 2 "no target is called 'zz'; there are:.* frame" "fuzz: a target that is not there" "$tools/fuzz" 5 zz
expect 2 "'soon' is not a number of seconds" "fuzz: not a number" "$tools/fuzz" soon
expect 2 "'long' is not a number of hours" "soak: not a number" "$tools/soak" long
expect 2 "at least HOURS=0.75" "soak: too short" "$tools/soak" 0.5
expect 2 "no system is called 'windows'" "roots: a system that is not there" "$tools/roots" make none windows python3
expect 2 "debian-13 *gcc 14" "check-compilers: a system that is not there" "$tools/check-compilers" windows

# ---- release, on a small project: it refuses before it changes anything.
small=$work/small
mkdir -p "$small/tools"
cp "$tools/release" "$small/tools"
printf "project('x', 'c',\n        version: '1.0.0')\n" >"$small/meson.build"
printf '# Changes\n\n## 1.2.0, unreleased\n\n- new\n' >"$small/CHANGELOG.md"
git -C "$small" init -q
git -C "$small" config user.name tester
git -C "$small" config user.email tester@localhost
git -C "$small" add .
git -C "$small" commit -qm "begin"
expect 1 "'' is not a version: use .make release VERSION=1.2.3" "release: without a version" "$small/tools/release"
expect 1 "'v1.2.0' is not a version" "release: not a version" "$small/tools/release" v1.2.0
expect 1 "no section '## 1.3.0, unreleased'" "release: without a section of the changes" "$small/tools/release" 1.3.0
expect 1 'tests/formats/1.2.0 does not exist' "release: without samples" "$small/tools/release" 1.2.0
git -C "$small" tag v1.1.0
expect 1 'the tag v1.1.0 exists already' "release: a version that is there" "$small/tools/release" 1.1.0
echo '- newer' >>"$small/CHANGELOG.md"
expect 1 'changes that are not committed' "release: what is not committed" "$small/tools/release" 1.2.0
exit $failed
