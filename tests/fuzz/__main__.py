"""`make fuzz`: gives every target bytes that reach new lines of it, for some minutes in all, and keeps what did.

Each target has a process of its own: the fuzzer ends the one it runs in. What made a target fail is left in the
directory of its corpus as `crash-…`; `python -m tests.fuzz TARGET FILE` gives it to the target again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Never

    Targets = dict[str, tuple[Callable[[bytes], None], Callable[[], list[bytes]]]]

LONGEST = 4096
"""Bytes of one input: a few frames, or a tar of a file and a link with its end."""

PER_INPUT_SECONDS = 20
"""One that takes longer has found something, too."""

READ_CLOSELY = (
    "sandbox_skills.engines",
    "sandbox_skills.install",
    "sandbox_skills.workspace",
    "tarfile",
    "zipfile",
)
"""Whose lines count as new."""


def targets() -> Targets:
    """Returns what can be fuzzed; imported when it is needed, which is after the fuzzer in a process that has one."""
    found: Targets = importlib.import_module("tests.fuzz.targets").TARGETS
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", nargs="?", help="only this one")
    parser.add_argument("file", nargs="?", type=Path, help="an input to be given to it once")
    parser.add_argument("--minutes", type=float, default=4.0, help="in all")
    parser.add_argument("--corpus", type=Path, default=Path(".state/fuzz/corpus"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        fuzz(given.target, given.corpus, int(given.minutes * 60))
    if given.file is not None:
        targets()[given.target][0](given.file.read_bytes())
        return 0
    names = [given.target] if given.target else list(targets())
    return max([one_process(name, given.corpus / name, given.minutes / len(names)) for name in names])


def one_process(name: str, corpus: Path, minutes: float) -> int:
    """Fuzzes one target in a process of its own; returns its exit code, which is 0 where the target held."""
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in targets()[name][1]():
        (corpus / hashlib.sha256(seed).hexdigest()).write_bytes(seed)
    argv = [
        sys.executable,
        "-m",
        "tests.fuzz",
        name,
        "--inside",
        f"--minutes={minutes}",
        f"--corpus={corpus}",
    ]
    done = subprocess.run(argv, check=False).returncode
    print(
        f"{name}: {'failed' if done else 'held'}; {len(list(corpus.iterdir()))} inputs in {corpus}",
        flush=True,
    )
    return done


def fuzz(name: str, corpus: Path, seconds: int) -> Never:
    """Fuzzes one target in this process, which the fuzzer ends."""
    atheris: Any = importlib.import_module("atheris")  # `make fuzz` alone installs it, and it has no types
    with atheris.instrument_imports(include=list(READ_CLOSELY)):
        target = targets()[name][0]
    options = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", f"-timeout={PER_INPUT_SECONDS}"]
    options += [f"-artifact_prefix={corpus}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target)
    atheris.Fuzz()
    raise AssertionError("the fuzzer ends its process")


if __name__ == "__main__":
    sys.exit(main())
