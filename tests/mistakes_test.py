#!/usr/bin/python3
"""mistakes_test.py — typical mistakes and their messages, as tests/mistakes/messages.txt shows them.

mistakes_test.py --write BUILD_DIR makes the mistakes and writes what they print into that file. The file has paragraphs:

    # Tasks                          a heading
    set up: ref = add.remote(1)      Python that the mistakes after it need, and that prints nothing
    >>> miniray.get(3)               a mistake in Python, with the names of tests/mistakes/names.py, in one process
    $ miniray lst                    a command, in an empty folder
    C> mr_init(NULL, NULL)           a call of tests/mistakes/mistakes.c, where others are added; at the end of the file

The lines below a mistake, with four spaces in front, are its message: the exception, the warning or, if there is neither,
the log line; of a command its output and exit status. Text that differs from run to run is replaced: see REPLACED.
"""

import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
import warnings

WRITE = sys.argv[1:2] == ["--write"]
SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[2]) if WRITE else os.environ["MINIRAY_TEST_BUILD"]
FOLDER = os.path.join(SOURCE, "tests", "mistakes")
MESSAGES = os.path.join(FOLDER, "messages.txt")
PACKAGE = os.path.join(BUILD, "python", "miniray") + os.sep
NOTHING = "(no message)"
LOG_S = 5  # longest wait for a log line
COMMAND_S = 20  # a command that takes longer is ended
COMMANDS = 4  # commands at a time

# What differs from run to run: pattern, and what stands in the file. The folders come first.
REPLACED = [(re.compile(pattern), text) for pattern, text in (
    (r"0x[0-9a-f]+", "0x…"),
    (r"\b[0-9a-f]{16,}\b", "ID"),
    (r"\b[otcag]\d+:\d+(\.\d+)?\b(?!,| or)", "ID"),
    (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
    (r"request \d+", "request N"),
    (r"\b(process|pid|actor|port|link|worker process)( |=)\d+\b", r"\1\2N"),
    (r"\bp\d+\b(?= \()|(?<=for )p\d+\b", "ID"),
    (r"\b\d+\.\d+ s\b", "N s"),
    (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
    (r"line \d+", "line N"),
    (r"miniray-\d+/[\w.-]+", "miniray-UID/SESSION"),
    (r"unix:\S*/ps-\w+", "unix:TMP/ps-NAME"),
)]


def normal(text, folder):
    """The text without what differs from run to run."""
    for path, name in ((folder, "TMP"), (BUILD, "BUILD"), (SOURCE, "SOURCE")):
        text = text.replace(path, name)
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if line and line.strip(" ^~"))


def paragraphs():
    """[kind, text, message] of each paragraph of the file; kind is '#', 'set up:', '>>>', '$' or 'C>'."""
    found = []
    with open(MESSAGES) as file:
        for paragraph in re.split(r"\n\n+", file.read().strip()):
            lines = paragraph.split("\n")
            message = [line[4:] for line in lines if line.startswith("    ")]
            own = [line for line in lines if not line.startswith("    ")]
            kind = next(kind for kind in ("set up:", ">>>", "$", "C>", "#") if own[0].startswith(kind))
            text = "\n".join(line[3 if line.startswith("...") else len(kind):].removeprefix(" ") for line in own)
            found.append([kind, text, "\n".join(message)])
    return found


def written(found):
    """The file with these paragraphs."""
    def shown(kind, text, message):
        first, *others = text.split("\n")
        return [f"{kind} {first}", *(f"... {line}".rstrip() for line in others), *(f"    {line}" for line in message.splitlines())]
    return "\n\n".join("\n".join(shown(*each)) for each in found) + "\n"


class Programs:
    """The mistakes in Python: one process, whose log goes to a file."""

    def __init__(self, folder):
        self.log = os.path.join(folder, "log")
        self.stderr = os.dup(2)
        file = os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, 2)
        os.close(file)
        sys.path[:0] = [FOLDER, os.path.join(BUILD, "python")]
        import names
        self.names = vars(names)

    def close(self):
        import miniray
        miniray.shutdown()
        os.dup2(self.stderr, 2)

    def set_up(self, text):
        exec(text, self.names)

    def message(self, text):
        seen = os.path.getsize(self.log)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                exec(compile(text, "program.py", "exec"), self.names)
            except BaseException as error:
                return self.of_error(error)
        shown = [f"{each.category.__name__}: {each.message}" for each in warned if each.category is not ResourceWarning]
        return "\n".join(shown) or self.logged(seen)

    def of_error(self, error):
        """The text of an exception; also what is wrong with its traceback."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
        inside = [f"(the traceback shows {frame.name} of {frame.filename})\n" for frame in frames]
        return "".join([*traceback.TracebackException.from_exception(error).format_exception_only(), *inside])

    def logged(self, seen):
        """The lines that the log has got."""
        deadline = time.monotonic() + LOG_S
        while os.path.getsize(self.log) == seen and time.monotonic() < deadline:
            time.sleep(0.02)
        with open(self.log) as file:
            file.seek(seen)
            return file.read() or NOTHING


def of_command(text, folder):
    """The output and the exit status of a command."""
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        known = {name: value for name, value in os.environ.items() if not name.startswith(("MINIRAY_", "DMLC_"))}
        done = subprocess.run(["timeout", str(COMMAND_S), "sh", "-c", text], cwd=empty, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**known, "PATH": BUILD + ":" + os.environ["PATH"], "TMPDIR": folder})
        return normal(f"{done.stdout}\nexit status {done.returncode}".replace(empty, "TMP"), folder)


def in_c(folder):
    """The paragraphs of the C program, which prints each call, a tab and its message."""
    done = subprocess.run([os.path.join(BUILD, "tests", "mistakes-program")], text=True, timeout=60, cwd=folder,
                          stdout=subprocess.PIPE, check=True)
    return [["C>", *line.split("\t", 1)] for line in normal(done.stdout, folder).splitlines()]


def made(found, folder):
    """The same paragraphs, with the messages of this build."""
    programs, again = Programs(folder), []
    run = concurrent.futures.ThreadPoolExecutor(COMMANDS)
    commands = {text: run.submit(of_command, text, os.path.join(folder, "commands")) for kind, text, _ in found if kind == "$"}
    c_program = run.submit(in_c, folder)
    try:
        for kind, text, _ in found:
            if kind == "C>":
                again += c_program.result()  # all at the place of the first
                break
            began = time.monotonic()
            if kind == "set up:":
                programs.set_up(text)
            message = commands[text].result() if kind == "$" else ""
            message = normal(programs.message(text), folder) if kind == ">>>" else message
            if WRITE and time.monotonic() - began > 0.5:
                print(f"{time.monotonic() - began:.1f} s: {text}")
            again.append([kind, text, message])
    finally:
        programs.close()
        run.shutdown()
    return again


def main():
    before = paragraphs()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.mkdir(os.path.join(folder, "commands"))
        after = made(before, folder)
    mistakes = [each for each in after if each[0] not in ("#", "set up:")]
    silent = [text for _, text, message in mistakes if not message or NOTHING in message]
    if WRITE:
        with open(MESSAGES, "w") as file:
            file.write(written(after))
        print(f"{len(mistakes)} mistakes, {len(silent)} without a message")
        return bool(silent)
    expected, wrong = {}, 0
    for kind, text, message in before:
        expected.setdefault((kind, text), []).append(message)
    for kind, text, message in mistakes:
        if [message] == expected.get((kind, text), [])[:1] and text not in silent:
            del expected[kind, text][0]
            print(f"ok - {kind} {text.splitlines()[0]}")
            continue
        wrong += 1
        print(f"not ok - {kind} {text}\n{message}\n(if this is right: tests/mistakes_test.py --write {BUILD})")
    for (kind, text), messages in expected.items():
        if kind == "C>" and messages:
            wrong += 1
            print(f"not ok - {kind} {text} is not in tests/mistakes/mistakes.c")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
