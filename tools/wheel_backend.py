#!/usr/bin/python3
"""wheel_backend.py FOLDER: build and pack the package as a wheel. Also the hooks that pip calls (PEP 517).

A wheel is a zip of the package, of the command and of three files about them. meson builds and installs what is in it, so
sources and flags are in one place; Debian's Python needs neither setuptools nor a network for this.

The sources (sdist) contain the archives of subprojects/*.wrap, and are built with these: pip needs a C compiler, the headers
of Python, and the packages of pyproject.toml.
"""

import base64
import configparser
import glob
import gzip
import hashlib
import http.client
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import urllib.request
import zipfile

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pip has brought it (pyproject.toml), or has it inside
    try:
        import tomli as tomllib
    except ModuleNotFoundError:
        from pip._vendor import tomli as tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EPOCH = (1980, 1, 1, 0, 0, 0)  # so that the same files give the same zip
LICENSES = ("LICENSE", "LICENSES.md")  # of Miniray, and of compiled-in projects
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "miniray", "wheels")
ARCHIVES = "subprojects/packagecache"  # where meson looks for an archive before it downloads; only sdists have it
DOWNLOAD_S = 30


def project():
    """Returns the table of pyproject.toml, with the version of meson.build."""
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        table = tomllib.load(file)["project"]
    with open(os.path.join(ROOT, "meson.build")) as file:
        table["version"] = file.read().split("version: '")[1].split("'")[0]
    return table


def run(*command, **options):
    """Runs the command in the root; pip shows its output only if it fails."""
    return subprocess.run(command, cwd=ROOT, check=True, **options)


# ---- Libraries that sources and portable wheels contain.


def library_archives():
    """Returns the paths of the archives of subprojects/*.wrap, from CACHE or downloaded, and why others are missing."""
    paths, missing = [], []
    for wrap in sorted(glob.glob(ROOT + "/subprojects/*.wrap")):
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(wrap)
        library = parser["wrap-file"]
        path = os.path.join(CACHE, "sources", library["source_filename"])
        reason = None if digest_of(path) == library["source_hash"] else download_archive(library, path)
        if reason is None:
            paths.append(path)
        else:
            missing.append(f"{library['source_filename']}: {reason}")
    return paths, missing


def digest_of(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def download_archive(library, path):
    """Downloads an archive to `path`; returns the reason if it cannot."""
    if os.environ.get("PIP_NO_INDEX"):
        return "PIP_NO_INDEX forbids the download"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    for url in (library["source_url"], library["source_fallback_url"]):
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_S) as answer:
                data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            reason = f"{url} cannot be read: {error}"
            continue
        if hashlib.sha256(data).hexdigest() == library["source_hash"]:
            with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
                file.write(data)
            os.rename(file.name, path)
            return None
        reason = f"the {len(data)} bytes from {url} have another SHA-256 than the wrap file says"
    return reason


# ---- What a build needs.

PACKAGES = """On Debian and Ubuntu:   apt-get install gcc libc6-dev binutils python3-dev
On Fedora and similar:  dnf install gcc python3-devel
Without a compiler:     pip install --only-binary miniray miniray
(a wheel: for CPython 3.10 to 3.14 on x86_64 or aarch64, with glibc 2.28 or newer)"""


def check_needs():
    """Ends the process with what is missing here to build, and the next step."""
    reason = missing_need()
    if reason is not None:
        sys.exit(f"miniray {project()['version']} cannot be built here: {reason}")


def missing_need():
    if sys.platform != "linux" or sys.implementation.name != "cpython":
        return f"it needs Linux and CPython; this is {sys.implementation.name} on {sys.platform}."
    compiler = shlex.split(os.environ.get("CC", "")) or next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
    if compiler is None:
        return f"there is no C compiler (cc, gcc or clang) in PATH, and CC is not set.\n{PACKAGES}"
    if shutil.which(compiler[0]) is None:
        return f"the C compiler '{compiler[0]}', which CC names, is not in PATH. Correct CC, or unset it."
    body = "int main(void) { return 0; }"
    for reason, program in (
            ("cannot compile a program: correct the compiler, CC or PATH", body),
            (f"does not find the headers of the C library.\n{PACKAGES}", "#include <features.h>\n" + body),
            ("compiles for another C library than glibc, which miniray needs. Use a system or an image with glibc (Debian, Ubuntu, Fedora; "
             "not Alpine).", "#include <features.h>\n#ifndef __GLIBC__\n#error\n#endif\n" + body),
            (f"does not find the headers of Python (Python.h in {sysconfig.get_path('include')}).\n{PACKAGES}", "#include <Python.h>\n" + body)):
        done = compile_program(compiler, program)
        if done.returncode != 0:
            return f"{shlex.join(compiler)} {reason}\n{done.stdout.strip()}"
    for name in ("meson", "ninja"):
        if shutil.which(name) is None:
            return f"{name} is not in PATH. Leave out --no-build-isolation, so that pip brings it, or install it: pip install {name}"
    meson = run("meson", "--version", stdout=subprocess.PIPE, text=True).stdout.strip()
    if sys.version_info >= (3, 12) and tuple(map(int, meson.split(".")[:2])) < (1, 3):
        return f"meson {meson} does not know Python 3.12 and newer, meson 1.3 does. Leave out --no-build-isolation, so that pip brings it."
    return None


def compile_program(compiler, text):
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/program.c", "w") as file:
            file.write(text)
        return subprocess.run([*compiler, f"-I{sysconfig.get_path('include')}", f"-I{sysconfig.get_path('platinclude')}", "program.c",
                               "-o", "program"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# ---- Building: only installed files, for the interpreter that runs this.


def tag():
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{version}-{version}{sys.abiflags}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def own_folder():
    """Whether this Python and meson are the system's, as in `make`. (A build by pip's meson cannot go on without that meson.)"""
    return sys.base_prefix == "/usr" and shutil.which("meson") == "/usr/bin/meson"


def build(folder):
    """Compiles in this folder what is installed."""
    check_needs()
    if not os.path.exists(os.path.join(ROOT, folder, "build.ninja")):
        contained = ["--wrap-mode=forcefallback"] if os.path.exists(os.path.join(ROOT, ARCHIVES)) else []
        options = ["-Dwhole=true"] if own_folder() else ["-Dwheel=true", f"-Dpython={sys.executable}"]
        done = subprocess.run(["meson", "setup", folder, *options, *contained], cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(f"{done.stdout}\nmeson could not configure the build of miniray; the lines above say why")
    compile_installed(folder)


def compile_installed(folder):
    """Compiles what `meson install` installs from this build, and nothing else."""
    known = json.loads(run("meson", "introspect", folder, "--targets", stdout=subprocess.PIPE).stdout)
    wanted = [path for target in known if target["installed"] for path in target["filename"]]
    done = subprocess.run(["ninja", "-C", folder, *(os.path.relpath(path, os.path.join(ROOT, folder)) for path in wanted)],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\nninja failed in {folder} with status {done.returncode}")


def staged(folder, stage):
    """Installs the build into `stage`; returns the content of the wheel, {name: path}."""
    run("meson", "install", "-C", folder, "--no-rebuild", "--quiet", env={**os.environ, "DESTDIR": stage},
        stdout=subprocess.DEVNULL)
    package = os.path.dirname(glob.glob(stage + "/**/miniray/__init__.py", recursive=True)[0])
    content = {os.path.relpath(path, os.path.dirname(package)): path
               for path in glob.glob(package + "/**", recursive=True) if os.path.isfile(path)}
    content[f"{stem()}.data/scripts/miniray"] = glob.glob(stage + "/**/bin/miniray", recursive=True)[0]
    return content


# ---- Packing.


def stem():
    return f"miniray-{project()['version']}"


def metadata():
    table = project()
    lines = ["Metadata-Version: 2.1", f"Name: {table['name']}", f"Version: {table['version']}",
             f"Summary: {table['description']}", f"License: {table['license']['text']}", *(f"License-File: {name}" for name in LICENSES),
             f"Requires-Python: {table['requires-python']}"]
    lines += [f"Requires-Dist: {name}" for name in table["dependencies"]]
    lines += [f"Classifier: {name}" for name in table["classifiers"]]
    with open(os.path.join(ROOT, table["readme"])) as file:
        return "\n".join(lines + ["Description-Content-Type: text/markdown", "", file.read()])


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517: so that pip rejects other versions of Python before it builds."""
    about = f"{stem()}.dist-info"
    os.makedirs(os.path.join(metadata_directory, about))
    with open(os.path.join(metadata_directory, about, "METADATA"), "w") as file:
        file.write(metadata())
    return about


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. The setting `build-folder` names a build to take instead of build/lto or a folder for this wheel alone."""
    with tempfile.TemporaryDirectory() as work:
        folder, stage = (config_settings or {}).get("build-folder"), work + "/stage"
        folder = folder or ("build/lto" if own_folder() else work + "/build")
        build(folder)
        content = staged(folder, stage)
        run("strip", "--strip-unneeded", *(path for path in content.values() if os.access(path, os.X_OK)))
        return pack(content, tag(), wheel_directory)


def pack(content, tag, wheel_directory):
    """Packs {name: path} as the wheel for `tag`, and returns its name. The same files give the same bytes."""
    name, record = f"{stem()}-{tag}.whl", []
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:

        def add(entry, data, mode):
            info = zipfile.ZipInfo(entry, EPOCH)
            info.external_attr, info.compress_type = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{entry},sha256={digest},{len(data)}\n")

        for entry, path in sorted(content.items()):
            with open(path, "rb") as file:
                add(entry, file.read(), 0o755 if os.access(path, os.X_OK) else 0o644)
        about = f"{stem()}.dist-info"
        for license in LICENSES:
            with open(os.path.join(ROOT, license), "rb") as file:
                add(f"{about}/{license}", file.read(), 0o644)
        add(f"{about}/METADATA", metadata().encode(), 0o644)
        add(f"{about}/WHEEL", f"Wheel-Version: 1.0\nGenerator: miniray\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), 0o644)
        wheel.writestr(zipfile.ZipInfo(f"{about}/RECORD", EPOCH), "".join(record) + f"{about}/RECORD,,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: the files that git tracks, or without git all files but builds, and the archives of the libraries.

    The same files give the same bytes."""
    name = f"{stem()}.tar.gz"
    libraries, missing = ([], []) if os.path.exists(os.path.join(ROOT, ARCHIVES)) else library_archives()
    if missing:
        print(f"{name} is without libraries that pip's build needs: {'; '.join(missing)}", file=sys.stderr)
    with open(os.path.join(sdist_directory, name), "wb") as file, \
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def same_everywhere(entry):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            return entry

        for path in sorted(sources()):
            archive.add(os.path.join(ROOT, path), f"{stem()}/{path}", recursive=False, filter=same_everywhere)
        for path in libraries:
            archive.add(path, f"{stem()}/{ARCHIVES}/{os.path.basename(path)}", filter=same_everywhere)
        about, data = tarfile.TarInfo(f"{stem()}/PKG-INFO"), metadata().encode()
        about.size = len(data)
        archive.addfile(same_everywhere(about), io.BytesIO(data))
    return name


def sources():
    if os.path.exists(os.path.join(ROOT, ".git")):
        return run("git", "ls-files", stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found = run("find", ".", "-type", "f", "-not", "-path", "./build/*", "-not", "-name", "*.pyc", "-not", "-name",
                "PKG-INFO", "-printf", "%P\n", stdout=subprocess.PIPE, text=True)
    return sorted(found.stdout.splitlines())


if __name__ == "__main__":
    print(build_wheel(*sys.argv[1:2]))
