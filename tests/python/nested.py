"""nested.py COUNT: a chain of so many tasks, of which each submits the next one and waits for it. Prints the seconds;
exit code 0: success, also if the system starts no more processes and the error says so."""

import sys
import time

import miniray

LIMIT = "the limit of processes and threads is reached"


@miniray.remote
def nest(depth):
    return 1 + miniray.get(nest.remote(depth - 1)) if depth > 1 else 1


def main(count):
    miniray.init(num_workers=2)
    start = time.monotonic()
    try:
        found = miniray.get(nest.remote(count))
    except miniray.exceptions.RayError as error:
        print(f"    {count} nested tasks: failed after {time.monotonic() - start:.1f} s: {str(error)[-600:]}")
        return LIMIT not in str(error)
    print(f"    {count} nested tasks: {time.monotonic() - start:.1f} s")
    return found != count


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
