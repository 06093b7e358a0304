#!/usr/bin/env python3
"""Tries what a sandbox must block and reports it as JSON; exits with 1 when something got through."""

from __future__ import annotations

import argparse
import errno
import json
import os
import select
import signal
import time
from typing import TYPE_CHECKING

from attempts import ATTEMPTS, Blocked

if TYPE_CHECKING:
    from attempts import Attempt

ALL_SECONDS = 2.5
"""For everything: whoever waits for a demonstration, or a test, waits less than 3 seconds."""

ONE_SECONDS = 0.6
"""For one attempt: what is blocked is refused at once, a connection gives up after 0.4 s."""

MOST_ANSWER = 64 * 1024
"""What a pipe holds: a child that says less never waits for its reader."""

ENFORCED_BY = {
    errno.EROFS: "read-only file system",
    errno.ENETUNREACH: "no network interface but the loopback",
    errno.ENOSYS: "seccomp profile",
    errno.ENOENT: "absent from the sandbox",
}
"""What an error shows by itself, whichever attempt meets it; for others the attempt knows."""


def attempt_in_child(attempt: Attempt, seconds: float) -> dict[str, object]:
    """Returns what came of one attempt, made in a child that does not outlive the call."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, json.dumps(outcome(attempt)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], max(seconds, 0))
    answer = os.read(reader, MOST_ANSWER) if ready else b""
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if answer:
        found: dict[str, object] = json.loads(answer)
        return found
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS:
        return verdict("SIGSYS: killed for the system call", "seccomp profile", blocked=True)
    return verdict(f"no answer in {max(seconds, 0):.1f} s", blocked=False)


def outcome(attempt: Attempt) -> dict[str, object]:
    """Makes one attempt here and now."""
    try:
        return verdict(attempt.make(), blocked=False)
    except Blocked as refusal:
        return verdict(str(refusal), attempt.guard, blocked=True)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0, "")
        how = f"{name}: {error.strerror}" if name else str(error)
        return verdict(how, ENFORCED_BY.get(error.errno or 0, attempt.guard), blocked=True)


def verdict(how: str, enforced_by: str = "", *, blocked: bool) -> dict[str, object]:
    """Returns the part of a report that depends on what happened."""
    return {"blocked": blocked, "how": how, "enforced_by": enforced_by}


def report(names: list[str]) -> dict[str, object]:
    """Makes the named attempts one after another."""
    end = time.monotonic() + ALL_SECONDS
    rows = [
        {"name": name, "what": ATTEMPTS[name].what}
        | attempt_in_child(ATTEMPTS[name], min(ONE_SECONDS, end - time.monotonic()))
        for name in names
    ]
    return {"attempts": rows, "escaped": [row["name"] for row in rows if not row["blocked"]]}


def chosen(text: str) -> list[str]:
    """Returns the names in a comma-separated list; raises argparse.ArgumentTypeError for an unknown one."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := [name for name in names if name not in ATTEMPTS]:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}; known: {', '.join(ATTEMPTS)}")
    if not names:
        raise argparse.ArgumentTypeError("name at least one attempt")
    return names


def main() -> int:
    """Reads the arguments, prints the report and returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", type=chosen, default=list(ATTEMPTS), metavar="NAME,NAME")
    parser.add_argument("--list", action="store_true", help="print the names of the attempts and stop")
    given = parser.parse_args()
    if given.list:
        print("\n".join(ATTEMPTS))
        return 0
    found = report(given.only)
    print(json.dumps(found, indent=2))
    return 1 if found["escaped"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
