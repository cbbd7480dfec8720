"""TLS: a certificate and its key from PEM files, whether clients could accept them today, and until when."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from hubbub.collector.settings import Settings
from hubbub.protocol.invalid import Invalid

_STEPS = 4  # of a handshake in memory: TLS 1.3 needs two from each side
_NOT_YET_VALID, _EXPIRED = 9, 10  # X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED
_WORDS = {_NOT_YET_VALID: "is not valid yet", _EXPIRED: "has expired"}


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """What the collector speaks TLS with, or None. Raises `Invalid` or OSError if the files cannot be used."""
    if settings.tls_certificate is None or settings.tls_key is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise Invalid(
                [f"tls_key must be the key of tls_certificate, got {settings.tls_key}, the key of another"]
            ) from None
        raise Invalid([f"tls_certificate and tls_key must be a PEM certificate and its key: {error}"]) from None
    return context


def check_validity(context: ssl.SSLContext | None, certificate: Path | None) -> None:
    """Raise `Invalid` if today is not between the certificate's dates."""
    if context is not None and certificate is not None:
        _shake_hands(context, certificate)


def expiry(context: ssl.SSLContext | None, certificate: Path | None) -> float | None:
    """When the certificate ends, in seconds since 1970; 0 if today is not between its dates, None if nobody can say."""
    if context is None or certificate is None:
        return None
    try:
        client = _shake_hands(context, certificate)
    except Invalid:
        return 0.0
    accepted = None if client is None else client.getpeercert()
    return float(ssl.cert_time_to_seconds(str(accepted["notAfter"]))) if accepted else None


def _shake_hands(context: ssl.SSLContext, certificate: Path) -> ssl.SSLObject | None:
    """A client that trusts just this certificate shakes hands with the server in memory, and OpenSSL judges.

    For the standard library does not tell the dates of a certificate file. Raises `Invalid` for the dates; None if
    OpenSSL minds something else.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client_context.load_verify_locations(certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(_STEPS):
        try:
            with suppress(ssl.SSLWantReadError):
                client.do_handshake()
        except ssl.SSLCertVerificationError as error:
            if error.verify_code in _WORDS:
                raise Invalid([f"tls_certificate {certificate} {_WORDS[error.verify_code]}"]) from None
            return None  # whom it is for is not judged here: its clients may trust it for reasons of their own
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
    return client
