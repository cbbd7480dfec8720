"""What stands beside the numbers of a metric, as plain values for `templates/_aside.html`: files to take away, its
privacy label, what a careful reader checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.text import percent
from hubbub.analysis.result import Decoding
from hubbub.dashboard.figures import Figure, epsilon_figure
from hubbub.dashboard.query import View
from hubbub.dashboard.reader_view import Readers, readers
from hubbub.dashboard.sentences import Fact, several, with_unit
from hubbub.dashboard.snapshot import Snapshot, Terms
from hubbub.protocol.epsilon import show
from hubbub.protocol.label import unprotected_of, words_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.tally import undivided

DOWNLOADS = {
    "csv": "CSV, for a spreadsheet",
    "json": "JSON, with diagnostics",
    "parquet": "Parquet, for a notebook",
    "png": "PNG, the chart for a slide",
}


@dataclass(frozen=True, slots=True)
class Download:
    address: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """`figures` are epsilons, `details` sentences, `unprotected` what nothing here protects; `readers` is about those
    who see published figures alone."""

    figures: tuple[Fact, ...]
    chart: Figure | None
    details: tuple[Fact, ...]
    unprotected: tuple[str, ...]
    readers: Readers


def downloads(name: str, view: View, *, is_drawable: bool) -> tuple[Download, ...]:
    """Exactly what `hubbub decode` writes."""
    return tuple(
        Download(f"/metric/{name}/{name}.{kind}{view.query()}", words)
        for kind, words in DOWNLOADS.items()
        if is_drawable or kind != "png"
    )


def privacy(definition: Definition, terms: Terms | None, snapshot: Snapshot) -> Privacy:
    """Every number is derived from the definition that the tally carries, rounded up."""
    words = words_of(definition)
    figures = [
        Fact("One report", f"ε {show(definition.epsilon_one_report)}"),
        Fact("Seven reports", f"ε {show(definition.epsilon_after(7))}"),
        Fact("All reports of one answer", f"ε {show(definition.epsilon_permanent)}"),
    ]
    if terms is not None:
        lifetime = show((1 if definition.hold else terms.max_values) * definition.epsilon_permanent)
        figures.append(Fact(f"A whole life, {several(terms.max_values, 'answer')}", f"ε {lifetime}"))
    details = [Fact(name.capitalize(), _sentence(words[name])) for name in ("asked", "sent", "tells")]
    if terms is not None:
        details.append(Fact("Who", f"{terms.owner}, until {terms.expires}."))
    return Privacy(
        figures=tuple(figures),
        chart=epsilon_figure(definition) if definition.every != "once" else None,
        details=tuple(details),
        unprotected=tuple(unprotected_of(definition)),
        readers=readers(definition, terms, snapshot),
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def diagnostics(decoding: Decoding, snapshot: Snapshot) -> tuple[Fact, ...]:
    """What a careful reader checks before believing a table."""
    found = decoding.diagnostics
    in_unit = with_unit(decoding, f"{found.attack_radius:.3g}")
    radius = percent(found.attack_radius) if decoding.has_shares else in_unit
    facts = [Fact(f"If {percent(found.fake_share)} of reports were fake", f"an estimate could be off by {radius}")]
    facts += _cohorts(decoding, snapshot)
    if found.num_columns > 1:
        facts.append(Fact("Told apart", f"{found.rank:,} of {found.num_columns:,} values"))
    if found.indistinguishable:
        groups = "; ".join(", ".join(group[:4]) for group in found.indistinguishable[:5])
        facts.append(Fact("Not told apart by this hash", groups))
    if found.hidden_heavy_share:
        share = percent(found.hidden_heavy_share)
        facts.append(Fact("Outside the list", f"a string held by about {share} is not in it"))
    return tuple(facts)


def _cohorts(decoding: Decoding, snapshot: Snapshot) -> list[Fact]:
    what = "cohort" if decoding.distribution is None else "level"
    sizes = np.array(
        [
            sum(counts.num_reports[cohort] for counts in tally.epochs.values())
            for tally in undivided(snapshot.tallies.get(decoding.metric, ()))
            for cohort in range(tally.metric.shape.num_cohorts)
        ]
    )
    if len(sizes) < 2:
        return []
    facts = [Fact(f"{what.capitalize()}s", f"{len(sizes):,}, of {sizes.min():,} to {sizes.max():,} reports")]
    odd = decoding.diagnostics.odd_cohorts
    if np.isnan(decoding.diagnostics.cohort_p).all():
        facts.append(Fact("Fit", "cannot be checked with these reports"))
    elif odd:
        some = ", ".join(map(str, odd[:10]))
        facts.append(Fact("Fit", f"{what}s {some} do not fit the others: broken, or tampered with"))
    else:
        facts.append(Fact("Fit", f"all {what}s agree, as far as noise lets one tell"))
    return facts
