"""Headers that no name can break out of, and pages that nobody can frame."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.daemon.ui.headers import PAGE_HEADERS, disposition, file_headers


@given(name=st.text(max_size=60), inline=st.booleans())
def test_a_disposition_is_one_line_of_ascii_with_one_quoted_name(name: str, *, inline: bool) -> None:
    header = disposition(name, inline=inline)
    assert re.fullmatch(
        r"(inline|attachment); filename=\"[A-Za-z0-9_. -]*\"; filename\*=UTF-8''[A-Za-z0-9_.~%-]*", header
    )


def test_a_name_keeps_its_letters_for_browsers_that_read_them() -> None:
    assert disposition("out/Überblick 1.csv", inline=False) == (
        "attachment; filename=\"_berblick 1.csv\"; filename*=UTF-8''%C3%9Cberblick%201.csv"
    )


@pytest.mark.parametrize(
    "mime_type", ["text/javascript", "application/pdf", "text/xml", "text/css", "application/xhtml+xml"]
)
def test_only_pictures_and_what_a_frame_holds_is_sent_as_what_it_is(mime_type: str) -> None:
    headers = file_headers("x", mime_type, download=False)
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("mime_type", ["image/svg+xml", "text/html"])
def test_a_drawing_is_shown_in_a_sandbox_that_runs_nothing(mime_type: str) -> None:
    headers = file_headers("x.svg", mime_type, download=False)
    assert headers["Content-Type"] == mime_type
    policy = headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "sandbox"
    assert "default-src 'none'" in policy
    assert not any(part.startswith("script-src") for part in policy)


def test_a_download_is_one_whatever_its_type() -> None:
    assert file_headers("x.png", "image/png", download=True)["Content-Disposition"].startswith("attachment")


def test_pages_run_nothing_inline_and_nobody_frames_them() -> None:
    policy = PAGE_HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert PAGE_HEADERS["X-Frame-Options"] == "DENY"
