#!/usr/bin/python3
"""docs_test.py — the code blocks of the documents work.

Every ```sh, ```c and ```python block of *.md, docs/**/*.md and python/**/*.md is run, in a folder per document, against an
installed copy of this build; the build itself is available as build/, as in the root of the repository. A C block whose first line is
a comment with a file name is kept under that name for the shell blocks after it; it is also compiled and run by itself. A block is left out only if the line above it says so, with a reason:

    <!-- not run: it takes an hour -->

None of a document's blocks is run if the document says so on a line of its own, with a reason: `<!-- none run: declarations -->`.
A ```text block below `<!-- output -->` is the expected output of the block before it.
"""

import glob
import os
import re
import signal
import subprocess
import sys
import tempfile

SOURCE = os.environ["MINIRAY_TEST_SOURCE"]
BUILD = os.environ["MINIRAY_TEST_BUILD"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*$")
NONE_RUN = re.compile(r"^<!-- none run: (.+) -->$", re.M)
OUTPUT = re.compile(r"<!-- output -->\s*$")
BLOCK_SECONDS = 300
C_NAME = re.compile(r"/\* ([\w-]+\.c)\b")


def documents():
    """The paths of all documents."""
    return sorted(glob.glob(SOURCE + "/*.md") + glob.glob(SOURCE + "/docs/**/*.md", recursive=True)
                  + glob.glob(SOURCE + "/python/**/*.md", recursive=True))


def stage(folder):
    """Installs the build and returns the environment of its user."""
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet"], check=True,
                   env=dict(os.environ, DESTDIR=folder), stdout=subprocess.DEVNULL)
    pc = glob.glob(folder + "/**/miniray.pc", recursive=True)[0]
    libdir = os.path.dirname(os.path.dirname(pc))
    package = glob.glob(folder + "/**/miniray/__init__.py", recursive=True)[0]
    return dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc), PKG_CONFIG_SYSROOT_DIR=folder,
                LD_LIBRARY_PATH=libdir, PYTHONPATH=os.path.dirname(os.path.dirname(package)),
                PYTHONDONTWRITEBYTECODE="1",
                PATH=os.path.join(os.path.dirname(libdir), "bin") + ":" + os.environ["PATH"])


def run_c(text, folder, environment):
    match = C_NAME.match(text)
    path = os.path.join(folder, match[1] if match else "block.c")
    with open(path, "w") as file:
        file.write(text)
    return run_sh(f"cc -std=c17 -Wall -Wextra -Werror {path} $(pkg-config --cflags --libs miniray) -o block && ./block",
                  folder, environment)


def run_sh(text, folder, environment):
    command = ["bash", "-euo", "pipefail", "-c", text]
    block = subprocess.Popen(command, cwd=folder, env=environment, text=True, start_new_session=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = block.communicate(timeout=BLOCK_SECONDS)
        return subprocess.CompletedProcess(command, block.returncode, output)
    except subprocess.TimeoutExpired:
        os.killpg(block.pid, signal.SIGKILL)
        output, _ = block.communicate()
        return subprocess.CompletedProcess(command, 1, f"{output}\nThe block did not end within {BLOCK_SECONDS} s.")


def run_python(text, folder, environment):
    with open(os.path.join(folder, "block.py"), "w") as file:
        file.write(text)
    return run_sh("/usr/bin/python3 block.py", folder, environment)


RUNNERS = {"sh": run_sh, "c": run_c, "python": run_python}


def check_document(path, folder, environment):
    """Runs the blocks of one document; returns the number of failures."""
    with open(path) as file:
        text = file.read()
    none_run = NONE_RUN.search(text)
    if none_run:
        print(f"# {os.path.relpath(path, SOURCE)} is not run: {none_run[1]}")
        return 0
    failed, last = 0, None
    for match in FENCE.finditer(text):
        language, block, before = match[1], match[2], text[: match.start()].rstrip(" \n")
        name = f"{os.path.relpath(path, SOURCE)}:{text[:match.start()].count(chr(10)) + 1}"
        skipped = NOT_RUN.search(before)
        if language in RUNNERS and skipped:
            print(f"# {name} is not run: {skipped[1]}")
        elif language in RUNNERS:
            last = RUNNERS[language](block, folder, environment)
            failed += report(f"{name} runs", last.returncode == 0, last.stdout)
        elif language == "text" and OUTPUT.search(before):
            failed += report(f"{name} is what comes out", last is not None and last.stdout == block,
                             last.stdout if last else "no block before it was run")
    return failed


def report(name, good, details):
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        print(details)
    return 0 if good else 1


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        environment = stage(folder + "/root")
        for number, path in enumerate(documents()):
            own = f"{folder}/{number}"
            os.mkdir(own)
            os.symlink(BUILD, own + "/build")
            failed += check_document(path, own, environment)
    failed += report("there are documents", len(documents()) > 0, "none found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
