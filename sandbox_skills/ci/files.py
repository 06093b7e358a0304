"""The files that a run left against what is expected of them. Pure; the size of images comes with the extra `test`."""

from __future__ import annotations

import hashlib
from importlib import import_module
from io import BytesIO
from typing import TYPE_CHECKING, Any

from sandbox_skills.ci.json_values import check_json
from sandbox_skills.ci.observed import Failure
from sandbox_skills.ci.texts import check_text
from sandbox_skills.engines.collecting import COLLECTION_LIMITS
from sandbox_skills.engines.globs import Glob
from sandbox_skills.errors import SettingsError
from sandbox_skills.workspace.media_types import media_type
from sandbox_skills.workspace.patterns import expand_braces, parse_patterns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sandbox_skills.ci.expect import Expect, FileExpectation, ImageExpectation
    from sandbox_skills.ci.observed import Observed
    from sandbox_skills.workspace.outputs import CollectedFile

MAX_TOLD = 12
"""Names of files in a message."""


def globs(text: str) -> list[Glob]:
    """Returns what a path with braces and variables stands for."""
    return [Glob(pattern) for pattern in parse_patterns(expand_braces(text))]


def check_files(expected: Expect, seen: Observed, snapshots: Mapping[str, str | None]) -> Iterator[Failure]:
    """Yields what of the files of a run is not as expected."""
    if not expected.files and not expected.no_other_files:
        return
    if hit := sorted(seen.limits_hit.intersection(COLLECTION_LIMITS)):
        yield Failure(
            "files", f"not every file could be looked at: {', '.join(hit)} reached (collect in the settings)"
        )
    claimed: set[str] = set()
    for one in expected.files:
        patterns = globs(one.path)
        matched = [file for file in seen.files if any(glob.matches(str(file.path)) for glob in patterns)]
        claimed |= {str(file.path) for file in matched}
        yield from _count(one, matched, seen.files)
        for file in matched:
            yield from _check_file(one, file, snapshots)
    if expected.no_other_files:
        yield from _others([file for file in seen.files if str(file.path) not in claimed])


def _count(
    expected: FileExpectation, matched: Sequence[CollectedFile], every: Sequence[CollectedFile]
) -> Iterator[Failure]:
    least, most = expected.count.least or 0, expected.count.most
    if least <= len(matched) and (most is None or len(matched) <= most):
        return
    wanted = f"{least} or more" if most is None else str(most) if least == most else f"{least} to {most}"
    yield Failure(
        "files.count",
        f"{wanted} files expected at {expected.path!r}, {len(matched)} found; the run left {_named(every)}",
    )


def _others(files: Sequence[CollectedFile]) -> Iterator[Failure]:
    left = [file for file in files if file.path.parts[:1] == ("out",)]
    if left:
        yield Failure("no_other_files", f"out/ has files that nothing expects: {_named(left)}")


def _check_file(
    expected: FileExpectation, file: CollectedFile, snapshots: Mapping[str, str | None]
) -> Iterator[Failure]:
    name, data = str(file.path), file.data or b""
    if file.truncated and (expected.content or expected.json_value or expected.sha256 or expected.image):
        yield Failure(
            "files", f"{name} has {file.size:,} bytes, more than is kept of one (collect.file_bytes)"
        )
        return
    if expected.sha256 is not None and (digest := hashlib.sha256(data).hexdigest()) != expected.sha256:
        yield Failure("files.sha256", f"{name} has the SHA-256 {digest}, not {expected.sha256}")
    if expected.mime is not None and (found := media_type(name, data)) != expected.mime:
        yield Failure("files.mime", f"{name} is {found} by its content and name, not {expected.mime}")
    if expected.image is not None:
        yield from _check_image(name, expected.image, data)
    text = data.decode(errors="backslashreplace")
    if expected.content is not None:
        yield from check_text(name, expected.content, text, snapshots)
    if expected.json_value is not None:
        yield from check_json(name, expected.json_value, text)


def _check_image(name: str, expected: ImageExpectation, data: bytes) -> Iterator[Failure]:
    width, height = image_size(data)
    if (width, height) == (-1, -1):
        yield Failure("files.image", f"{name} is no image of a known kind")
        return
    for word, wanted, found in (("width", expected.width, width), ("height", expected.height, height)):
        if wanted is not None and wanted != found:
            yield Failure("files.image", f"{name} has a {word} of {found} pixels, not {wanted}")


def image_size(data: bytes) -> tuple[int, int]:
    """Returns width and height in pixels, -1 for what is no image; raises SettingsError without the package."""
    try:
        imagesize: Any = import_module("imagesize")  # of an extra, which only images need; it has no types
    except ImportError as error:
        raise SettingsError(
            "sizes of images need the package imagesize", hint="pip install 'sandbox-skills[test]'"
        ) from error
    try:
        width, height = imagesize.get(BytesIO(data))
    except Exception:  # noqa: BLE001  # a stranger's bytes in a reader of twenty formats
        return -1, -1
    return round(width), round(height)


def _named(files: Sequence[CollectedFile]) -> str:
    names = [str(file.path) for file in files[:MAX_TOLD]]
    more = f" and {len(files) - MAX_TOLD} more" if len(files) > MAX_TOLD else ""
    return (", ".join(names) or "none") + more
