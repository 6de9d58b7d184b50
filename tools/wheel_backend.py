#!/usr/bin/python3
"""wheel_backend.py FOLDER: build and pack the package as a wheel. Also the hooks that pip calls (PEP 517).

A wheel is a zip of the package, of the command and of three files about them. meson builds and installs what is in it, so
sources and flags are in one place; Debian's Python needs neither setuptools nor a network for this.
"""

import base64
import glob
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
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


# ---- Building: only installed files, for the interpreter that runs this.


def tag():
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return f"{version}-{version}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


def build(folder):
    """Compiles into build/lto, or beside it for a Python that is not the system's; returns the folder."""
    run("tools/deps", "--check", "build")
    system = sys.base_prefix == "/usr"
    folder = folder or ("build/lto" if system else f"build/{tag().split('-')[0]}")
    if not os.path.exists(os.path.join(ROOT, folder, "build.ninja")):
        run("meson", "setup", folder, "-Dwhole=true", *([] if system else [f"-Dpython={sys.executable}"]))
    compile_installed(folder)
    return folder


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


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517. The setting `build-folder` names a build to take instead of build/."""
    folder = build((config_settings or {}).get("build-folder"))
    with tempfile.TemporaryDirectory() as stage:
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
    """PEP 517: the files that git tracks, or without git all files but builds. The same files give the same bytes."""
    name = f"{stem()}.tar.gz"
    with open(os.path.join(sdist_directory, name), "wb") as file, \
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:

        def same_everywhere(entry):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if entry.mode & 0o100 else 0o644
            return entry

        for path in sorted(sources()):
            archive.add(os.path.join(ROOT, path), f"{stem()}/{path}", recursive=False, filter=same_everywhere)
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
