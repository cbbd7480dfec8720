"""SIGHUP: registry, certificate, tokens and limits are read again, without a connection lost.

Everything is read and checked before anything is changed. If something is wrong with any of it, the operator is told
what, and all of it stays as it was. Settings that only a start can change are named.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from hubbub.collector.catalog import Catalog
from hubbub.collector.commit import Committing
from hubbub.collector.http.app import App
from hubbub.collector.http.limits import Limits
from hubbub.collector.http.tls import check_validity, expiry, tls_context
from hubbub.collector.intake import Intake
from hubbub.collector.metrics import CollectorMetrics
from hubbub.collector.operator_log import OperatorLog
from hubbub.collector.settings import Settings
from hubbub.collector.stopped import StoppedMetrics
from hubbub.collector.storage.store import Store
from hubbub.collector.tokens import Tokens
from hubbub.protocol.invalid import Invalid

RELOADED = (
    "metrics", "older_metrics", "tls_certificate", "tls_key", "proxies", "origins", "sender_rate", "sender_burst",
    "max_batch_bytes", "max_relay_bytes", "max_reading_bytes",
)  # fmt: skip
"""The settings that a reload changes."""


@dataclass(kw_only=True)
class Reloader:
    """Changes a running collector. `reread` gives the settings as flags, variables and file have them now."""

    reread: Callable[[], Settings]
    settings: Settings
    context: ssl.SSLContext | None
    app: App
    store: Store
    committer: Committing
    limits: Limits
    tokens: Tokens
    own_metrics: CollectorMetrics
    stopped: StoppedMetrics
    operator_log: OperatorLog

    async def reload(self) -> None:
        """One at a time."""
        self.tokens.reload()  # a bad line there is ignored and logged, and keeps nothing else from being taken up
        try:
            await self._reload()
        except Invalid as error:
            self._refuse(error.problems)
        except OSError as error:  # an ssl.SSLError is an OSError
            self._refuse([str(error)])

    async def _reload(self) -> None:
        wanted = self.reread()
        if (wanted.tls_certificate is None) != (self.context is None):
            raise Invalid(["tls_certificate: whether TLS is spoken at all can only change with a restart"])
        settings = replace(self.settings, **{name: getattr(wanted, name) for name in RELOADED})
        catalog, context = await asyncio.to_thread(_read, settings)
        await self.committer.adopt(catalog)
        if self.context is not None and context is not None:
            assert settings.tls_certificate is not None
            self.context.load_cert_chain(settings.tls_certificate, settings.tls_key)  # for connections from now on
            self.own_metrics.certificate_expiry = expiry(context, settings.tls_certificate)
        self.limits.change(settings.sender_rate, settings.sender_burst)
        day, stopped = (lambda: self.store.day), self.stopped.names
        self.app.change(settings, catalog.registry, Intake(catalog, self.store.now, self.store.sealed, day, stopped))
        self.settings = settings
        later = [item.name for item in fields(Settings) if getattr(wanted, item.name) != getattr(settings, item.name)]
        self.operator_log.info("reloaded", metrics=len(catalog.metrics), **({"need_a_restart": later} if later else {}))

    def _refuse(self, problems: Sequence[str]) -> None:
        self.operator_log.error("the reload was refused; everything stays as it was", problems=list(problems))


def _read(settings: Settings) -> tuple[Catalog, ssl.SSLContext | None]:
    context = tls_context(settings)
    check_validity(context, settings.tls_certificate)
    return Catalog.load(settings.metrics, settings.older_metrics, settings.rehearsal), context
