"""Certificates for tests, by openssl: whoever uses this is skipped where it is missing."""

import shutil
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


def make_certificate(folder: Path, name: str, first: str, last: str) -> tuple[Path, Path]:
    """A certificate of its own, valid between two moments like 20200101000000Z, and its key."""
    certificate, key, request = (folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
    _openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", key, "-out", request)
    authority = folder / f"{name}.ca"
    authority.mkdir()
    (authority / "index.txt").touch()
    (authority / "serial").write_text("01")
    (authority / "ca.conf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={authority}/index.txt\nserial={authority}/serial\n"
        f"new_certs_dir={authority}\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n"
    )
    ca = ("ca", "-batch", "-config", authority / "ca.conf", "-selfsign", "-keyfile", key, "-in", request)
    _openssl(*ca, "-out", certificate, "-notext", "-startdate", first, "-enddate", last)
    return certificate, key


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
