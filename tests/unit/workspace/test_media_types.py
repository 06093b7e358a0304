"""Media types: bytes that prove a type win, names choose among kinds of text."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sqlite3
import sys
import tarfile
import wave
import zipfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.workspace.media_signatures import DOCX, PPTX, XLSX
from sandbox_skills.workspace.media_types import HEAD_BYTES, inline_text, is_text, media_type

UNKNOWN = "application/octet-stream"

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1"
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
ELF = Path(sys.executable).read_bytes()[:HEAD_BYTES]
NOISE = bytes(range(256))


def zipped(*names: str, content: bytes = b"<x/>", compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name in names:
            archive.writestr(name, content)
    return buffer.getvalue()


def tarred() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return buffer.getvalue()


def database() -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table a (b)")
        return connection.serialize()


def sound() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\0\0")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("out/a.csv", "text/csv"),
        ("a.CSV", "text/csv"),
        ("a.tsv", "text/tab-separated-values"),
        ("a.json", "application/json"),
        ("a.jsonl", "application/jsonl"),
        ("a.geojson", "application/geo+json"),
        ("a.yaml", "application/yaml"),
        ("a.yml", "application/yaml"),
        ("a.toml", "application/toml"),
        ("a.svg", "image/svg+xml"),
        ("a.html", "text/html"),
        ("a.xml", "application/xml"),
        ("README.md", "text/markdown"),
        ("a.txt", "text/plain"),
        ("a.log", "text/plain"),
        ("a.py", "text/x-python"),
        ("a.js", "text/javascript"),
        ("a.ts", "text/x-typescript"),
        ("a.sh", "text/x-shellscript"),
        ("a.css", "text/css"),
    ],
)
@pytest.mark.parametrize("head", [b"a,b\n1,2\n", b"", "größer\n".encode(), "größer\n".encode("latin-1")])
def test_text_has_the_type_that_its_name_says(name: str, expected: str, head: bytes) -> None:
    assert media_type(name, head) == expected


@pytest.mark.parametrize("name", ["Makefile", "a.unknown", "no.dot.", ".env", "out/.csv", ""])
def test_text_whose_name_says_nothing_is_plain(name: str) -> None:
    assert media_type(name, b"a,b\n1,2\n") == "text/plain"
    assert media_type(name, b"") == "text/plain"


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (PNG, "image/png"),
        (JPEG, "image/jpeg"),
        (b"GIF89a\1\0\1\0\x80\0\0", "image/gif"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (PDF, "application/pdf"),
        (b"%PDF-1.4\n1 0 obj\n", "application/pdf"),
        (zipped("a.txt"), "application/zip"),
        (zipped(), "application/zip"),
        (gzip.compress(b"x"), "application/gzip"),
        (lzma.compress(b"x"), "application/x-xz"),
        (bz2.compress(b"x"), "application/x-bzip2"),
        (tarred(), "application/x-tar"),
        (database(), "application/vnd.sqlite3"),
        (sound(), "audio/wav"),
        (b"ID3\3\0\0\0\0\0\x0f", "audio/mpeg"),
        (b"\xff\xfb\x90\x64\0\0", "audio/mpeg"),
        (b"\0\0\0\x20ftypisom\0\0\2\0", "video/mp4"),
        (b"wOFF\0\1\0\0", "font/woff"),
        (b"wOF2\0\1\0\0", "font/woff2"),
        (b"PAR1\x15\0\x15\xaa", "application/vnd.apache.parquet"),
        (ELF, "application/x-executable"),
    ],
)
@pytest.mark.parametrize("name", ["a", "a.txt", "a.csv", "a.html", "a.png", "a.json", "a.docx", "a.pkl"])
def test_bytes_that_prove_a_type_beat_every_name(name: str, head: bytes, expected: str) -> None:
    assert media_type(name, head) == expected


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (("[Content_Types].xml", "_rels/.rels", "word/document.xml"), DOCX),
        (("docProps/app.xml", "xl/workbook.xml", "[Content_Types].xml"), XLSX),
        (("_rels/.rels", "docProps/core.xml", "ppt/presentation.xml"), PPTX),
    ],
)
@pytest.mark.parametrize("name", ["a.docx", "a.xlsx", "a.zip", "a.txt", "a"])
def test_an_office_document_is_known_by_its_entries(
    name: str, entries: tuple[str, ...], expected: str
) -> None:
    assert media_type(name, zipped(*entries)) == expected


@pytest.mark.parametrize(("suffix", "expected"), [("docx", DOCX), ("xlsx", XLSX), ("pptx", PPTX)])
def test_an_office_document_that_shows_only_that_it_is_one_is_what_its_name_says(
    suffix: str, expected: str
) -> None:
    head = zipped("[Content_Types].xml")
    assert media_type(f"a.{suffix}", head) == expected
    assert media_type("a.zip", head) == "application/zip"


def test_a_workbook_whose_sheets_come_first_is_known_with_its_name() -> None:
    head = zipped("xl/worksheets/sheet1.xml")
    assert media_type("a.xlsx", head) == XLSX
    assert media_type("a.zip", head) == "application/zip"


def test_a_zip_with_an_office_document_in_it_is_a_zip() -> None:
    document = zipped("[Content_Types].xml", "word/document.xml")
    archive = zipped("a.docx", content=document, compression=zipfile.ZIP_STORED)
    assert media_type("a.zip", archive) == "application/zip"
    assert media_type("a.docx", archive) == "application/zip"


@pytest.mark.parametrize("declared", ["application/epub+zip", "application/vnd.oasis.opendocument.text"])
def test_a_zip_that_declares_its_type_in_its_first_entry_has_it(declared: str) -> None:
    head = zipped("mimetype", content=declared.encode(), compression=zipfile.ZIP_STORED)
    assert media_type("a.zip", head) == declared


def test_a_zip_cannot_declare_any_type_it_likes() -> None:
    head = zipped("mimetype", content=b"text/html", compression=zipfile.ZIP_STORED)
    assert media_type("a.zip", head) == "application/zip"


@pytest.mark.parametrize(
    "name", ["a.png", "a.zip", "a.csv", "a.html", "a.pdf", "a.mp3", "a", "a.docx", "a.svg"]
)
def test_a_name_alone_makes_no_picture_archive_or_text_of_unknown_bytes(name: str) -> None:
    assert media_type(name, NOISE) == UNKNOWN


def test_a_name_may_say_a_type_that_has_no_known_signature() -> None:
    assert media_type("a.doc", NOISE) == "application/msword"


@pytest.mark.parametrize("name", ["a.png", "a.exe", "a.zip", "a", "a.docx"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!DOCTYPE html>\n<html>", "text/html"),
        ("  <HTML lang=en>", "text/html"),
        ("\ufeff<html>", "text/html"),
        ('<?xml version="1.0"?>\n<svg xmlns="x"/>', "image/svg+xml"),
        ('<!-- made by x -->\n<svg width="1"/>', "image/svg+xml"),
        ('<?xml version="1.0"?><a/>', "application/xml"),
        ('{"a": [1, 2]}', "application/json"),
        ("[]", "application/json"),
        ("{ not json", "text/plain"),
        ("[" * 10_000, "text/plain"),
        ("#!/usr/bin/env python3\nx", "text/x-python"),
        ("#!/usr/bin/env node\nx", "text/javascript"),
        ("#!/bin/sh\nx", "text/x-shellscript"),
        ("{\\rtf1 x}", "application/rtf"),
        ("BMW, MZ, PAR1 and GIF89a are words", "text/plain"),
        ("GIF89a is a format", "text/plain"),
    ],
)
def test_text_whose_name_says_no_kind_of_text_is_told_by_how_it_begins(
    name: str, text: str, expected: str
) -> None:
    assert media_type(name, text.encode()) == expected


def test_html_in_a_file_named_as_plain_text_stays_plain() -> None:
    assert media_type("a.txt", b"<html><script>") == "text/plain"


def test_text_cut_in_a_character_is_text() -> None:
    head = ("é" * HEAD_BYTES).encode()[: HEAD_BYTES - 1]
    assert media_type("a.csv", head) == "text/csv"
    assert media_type("a", b"x" + ("é" * HEAD_BYTES).encode()) == "text/plain"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_wide_text_keeps_the_type_of_its_name_and_is_not_inlined(encoding: str) -> None:
    data = "a,b\n1,2\n".encode(encoding)
    assert media_type("a.csv", data) == "text/csv"
    assert inline_text(data, "text/csv") is None


@given(st.text(), st.binary())
def test_every_file_has_a_type_without_parameters(name: str, head: bytes) -> None:
    kind = media_type(name, head)
    assert kind.count("/") == 1
    assert ";" not in kind
    assert kind == kind.lower()


@given(st.binary())
def test_what_is_inlined_is_the_file_less_its_byte_order_mark(data: bytes) -> None:
    text = inline_text(data, "text/plain")
    if text is None:
        assert b"\0" in data or not is_text(data, complete=True)
    else:
        assert data.removeprefix(b"\xef\xbb\xbf") == text.encode()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.integers(0, 40))
def test_any_start_of_a_text_is_text(text: str, end: int) -> None:
    data = text.encode()
    assert is_text(data[:end], complete=False)
    inlined = inline_text(data[:end], "text/plain", complete=False)
    assert inlined is not None
    assert text.removeprefix("\ufeff").startswith(inlined)


@pytest.mark.parametrize(
    "data", [b"a\0b", b"\xff", b"caf\xe9 au lait", b"\xe2\x82", "\ud800".encode(errors="surrogatepass")]
)
def test_05_10_nul_or_bad_utf_8_is_not_inlined_whatever_the_type(data: bytes) -> None:
    assert inline_text(data, "text/plain") is None


@pytest.mark.parametrize("data", [b"caf\xe9 au lait", b"\xff", b"\xed\xa0\x80", b"a\xc3("])
def test_bad_utf_8_before_the_cut_is_not_taken_for_one(data: bytes) -> None:
    assert inline_text(data, "text/plain", complete=False) is None


@pytest.mark.parametrize(
    ("kind", "inlined"),
    [
        ("text/plain", True),
        ("text/csv", True),
        ("text/javascript", True),
        ("application/json", True),
        ("application/geo+json", True),
        ("application/yaml", True),
        ("image/svg+xml", True),
        ("application/xml", True),
        ("image/png", False),
        ("application/octet-stream", False),
        ("application/pdf", False),
    ],
)
def test_only_text_types_are_inlined(kind: str, *, inlined: bool) -> None:
    assert (inline_text(b"x", kind) is not None) == inlined


def test_a_byte_order_mark_is_left_out() -> None:
    assert inline_text(b"\xef\xbb\xbfa,b", "text/csv") == "a,b"


def test_json_without_a_name_is_known_as_far_as_it_is_looked_at() -> None:
    assert media_type("result", json.dumps(["x"] * 100).encode()) == "application/json"
