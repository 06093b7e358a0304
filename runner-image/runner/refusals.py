"""What the host hears of a request that cannot be met."""

from __future__ import annotations

import errno

MESSAGE_CHARACTERS = 300
"""Longest text of an ERROR: one line for a person."""


class Refused(Exception):  # noqa: N818  it is an answer to the host, and not an error of the runner
    """A request that is answered with ERROR; `code` is one of the protocol's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message[:MESSAGE_CHARACTERS]


class BrokenChannelError(Exception):
    """The host sent what cannot be a frame; nothing after it can be understood."""


ERRNO_CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "not_a_directory",
    errno.EISDIR: "not_a_file",
    errno.ENXIO: "not_a_file",
    errno.ELOOP: "not_permitted",
    errno.EACCES: "not_permitted",
    errno.EPERM: "not_permitted",
    errno.EROFS: "not_permitted",
    errno.ENOSPC: "no_space",
    errno.EDQUOT: "no_space",
    errno.EFBIG: "no_space",
    errno.ENAMETOOLONG: "bad_request",
}


def refusal(error: Exception) -> Refused:
    """Returns the answer to the host for whatever went wrong with a request."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return Refused(ERRNO_CODES.get(error.errno, "failed"), error.strerror or str(error))
    return Refused("failed", f"{type(error).__name__}: {error}")
