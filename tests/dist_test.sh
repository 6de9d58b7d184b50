#!/bin/bash
# dist_test.sh — the results of `make dist`, `pip install` and `make install` work without the build folder: a program
# runs tasks and actors in its own workers, and the command is installed.
set -uo pipefail
build=$MINIRAY_TEST_BUILD
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
failed=0
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INDEX=1 PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH
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

cat >"$stage/program.py" <<'END'
import os, sys, miniray
place = os.path.realpath(sys.argv[1])
miniray.init(num_workers=2)
@miniray.remote
def where(x):
    return x + 1, os.path.realpath(miniray.__file__)
@miniray.remote
class Counter:
    def add(self, step):
        self.value = getattr(self, "value", 0) + step
        return self.value
counter = Counter.remote()
assert miniray.get([counter.add.remote(i) for i in range(4)]) == [0, 1, 3, 6]
value, path = miniray.get(where.remote(1))
assert value == 2 and path.startswith(place + os.sep), path
END
program() { # PYTHON PLACE: it runs, from a folder that has nothing to do with it, with the package that lies in PLACE
    (cd / && timeout 60 "$1" "$stage/program.py" "$2")
}
package_in() { dirname "$(dirname "$(find "$1" -path '*/dist-packages/miniray/__init__.py')")"; }

# ---- pip: from the sources into a virtual environment; the wheel into another, and below another root.
venv() { /usr/bin/python3 -m venv --without-pip --system-site-packages "$stage/$1"; }
pip() { /usr/bin/python3 -m pip "$@"; }
from_sources() {
    venv sources && pip --python "$stage/sources" install --no-build-isolation --config-settings build-folder="$build" \
        "$MINIRAY_TEST_SOURCE" && program "$stage/sources/bin/python" "$stage/sources"
}
wheel_in_venv() {
    venv wheel && pip --python "$stage/wheel" install "$stage"/dist/*.whl &&
        program "$stage/wheel/bin/python" "$stage/wheel"
}
wheel_in_root() {
    pip install --break-system-packages --no-deps --root "$stage/root" --prefix /usr "$stage"/dist/*.whl &&
        PYTHONPATH=$(package_in "$stage/root") program /usr/bin/python3 "$stage/root"
}
version=$(sed -n "s/^ *version: '\(.*\)',/\1/p" "$MINIRAY_TEST_SOURCE/meson.build")
command_in() { "$(find "$1" -path '*/bin/miniray')" version | grep -xF "miniray $version"; }
uninstalled() { pip --python "$stage/wheel" uninstall -y miniray && [ -z "$(find "$stage/wheel" -name '*miniray*')" ]; }

# ---- Debian packages, unpacked beside each other.
unpacked() { for package in "$stage"/dist/*.deb; do dpkg-deb -x "$package" "$stage/debian" || return 1; done; }
from_debian() { PYTHONPATH=$stage/debian/usr/lib/python3/dist-packages program /usr/bin/python3 "$stage/debian"; }
c_from_debian() {
    local pc
    pc=$(find "$stage/debian" -name miniray.pc)
    printf '#include <miniray/status.h>\nint main(void) { return mr_version() == 0; }\n' >"$stage/hello.c"
    # shellcheck disable=SC2046 # several flags
    cc -o "$stage/hello" "$stage/hello.c" \
        $(PKG_CONFIG_PATH=${pc%/*} PKG_CONFIG_SYSROOT_DIR=$stage/debian pkg-config --cflags --libs miniray) &&
        LD_LIBRARY_PATH=${pc%/*/*} "$stage/hello"
}
depends() { dpkg-deb -f "$stage"/dist/"$1"_*.deb Depends; }
needs() {
    depends python3-miniray | grep 'miniray (= .*python3-cloudpickle.*libuv1' || return 1
    for package in $(basename "$stage"/dist/libminiray[0-9]*.deb | cut -d_ -f1) miniray python3-miniray; do
        ! depends "$package" | grep -i sqlite || return 1 # only the import of an older folder opens it
    done
}

# ---- make install.
installed() {
    DESTDIR=$stage/installed meson install -C "$build" --no-rebuild --quiet &&
        PYTHONPATH=$(package_in "$stage/installed") program /usr/bin/python3 "$stage/installed"
}

licenses() { # in the wheel: the licence of Miniray, and of each library that it may contain
    /usr/bin/python3 - "$stage"/dist/*.whl <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = [name for name in wheel.namelist() if name.split("/")[-1] in ("LICENSE", "LICENSES.md") and ".dist-info/" in name]
    text = "".join(wheel.read(name).decode() for name in sorted(names))
missing = [word for word in ("| libuv, ©", "| xxHash, ©", "| msgpuck, ©", "## MIT", "## ISC", "## BSD 2-clause") if word not in text]
sys.exit(f"{names} lack {missing}" if missing or len(names) != 2 else 0)
PY
}

check "make dist packs" "$MINIRAY_TEST_SOURCE/tools/dist" "$build" "$stage/dist"
check "pip install . into a virtual environment" from_sources
check "the wheel in a virtual environment" wheel_in_venv
check "its command" command_in "$stage/wheel"
check "the licences of what it contains" licenses
check "pip uninstall leaves nothing" uninstalled
check "the wheel below another root" wheel_in_root
check "the Debian packages unpack" unpacked
check "Python from the Debian packages" from_debian
check "their command" command_in "$stage/debian"
check "a C program with the Debian packages" c_from_debian
check "the Debian package of Python names what it needs" needs
check "Python from make install" installed
exit $failed
