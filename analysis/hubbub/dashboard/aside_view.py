"""What stands beside the numbers of a metric, as plain values for `templates/_aside.html`: files to take away, its
privacy label, what a careful reader checks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hubbub.analysis.render.glyphs import guess_bar
from hubbub.analysis.result import Decoding
from hubbub.dashboard.chart_rows import Chart, ChartRow
from hubbub.dashboard.downloads import drawable
from hubbub.dashboard.query import View
from hubbub.dashboard.reader_view import Readers, readers
from hubbub.dashboard.sentences import Fact, limit_in_words
from hubbub.dashboard.snapshot import Snapshot, Terms
from hubbub.protocol.epsilon import show
from hubbub.protocol.label import unprotected_of, words_of
from hubbub.protocol.metric import Definition
from hubbub.protocol.printed import percent
from hubbub.protocol.privacy_page import guesses
from hubbub.protocol.tally import undivided

DOWNLOADS = {
    "xlsx": "Excel",
    "csv": "CSV",
    "json": "JSON",
    "parquet": "Parquet",
    "png": "Chart, PNG",
    "svg": "Chart, SVG",
}
PICTURES = ("png", "svg")


@dataclass(frozen=True, slots=True)
class Download:
    address: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """`guesses` say how many of 100 can be right, `details` are sentences, `unprotected` what nothing here protects;
    `readers` is about those who see published figures alone."""

    guesses: Chart
    noise: str
    experts: str
    details: tuple[Fact, ...]
    unprotected: tuple[str, ...]
    readers: Readers


def downloads(name: str, view: View, decoding: Decoding) -> tuple[Download, ...]:
    """Exactly what `hubbub decode` writes."""
    return tuple(
        Download(f"/metric/{name}/{name}.{kind}{view.query()}", words)
        for kind, words in DOWNLOADS.items()
        if drawable(decoding) or kind not in PICTURES
    )


def privacy(definition: Definition, terms: Terms | None, snapshot: Snapshot) -> Privacy:
    """Every number is derived from the definition that the tally carries, rounded up."""
    words = words_of(definition)
    one, kept = definition.epsilon_one_report, definition.epsilon_permanent
    bounds = [("with one report", one)]
    if definition.every != "once":
        bounds.append(("with all reports", kept))
    rows = [
        _guess("tossing a coin", 50),
        *(_guess(name, guesses(epsilon)) for name, epsilon in bounds),
        ChartRow("unprotected", guess_bar(100, protected=False), "100 of 100", css="more"),
    ]
    whole = f"{show(kept)} for everything an install ever says, whatever changes"
    if definition.hold is None:
        life = "" if terms is None else f", {show(terms.max_values * kept)} for the life of an install"
        whole = f"{show(kept)} for all reports of one answer{life}"
    noise = "Random noise is added on the device and kept, so that asking again does not wear it off."
    if definition.hold is not None:
        noise = (
            "For all times it will be asked, the device draws beforehand, together, whether it will tell the truth: "
            "all answers cost no more than this, whatever changes."
        )
    experts = f"Experts call this privacy loss (epsilon), upper bound: {show(one)} for one report, {whole}."
    details = [Fact(name.capitalize(), _sentence(words[name])) for name in ("asked", "sent", "tells")]
    if terms is not None:
        details.append(Fact("Who", f"{terms.owner}, until {terms.expires}."))
    return Privacy(
        guesses=Chart(
            caption="How often a guess between two answers can be right, at most", rows=tuple(rows), css="wide"
        ),
        noise=noise,
        experts=experts,
        details=tuple(details),
        unprotected=tuple(unprotected_of(definition)),
        readers=readers(definition, terms, snapshot),
    )


def _guess(name: str, right: int) -> ChartRow:
    return ChartRow(name, guess_bar(right), f"{right} of 100")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def diagnostics(decoding: Decoding, snapshot: Snapshot) -> tuple[Fact, ...]:
    """What a careful reader checks before believing a table."""
    found = decoding.diagnostics
    radius = (
        percent(found.attack_radius) if decoding.has_shares else f"{found.attack_radius:.3g} {decoding.unit}".strip()
    )
    facts = [Fact(f"If {percent(found.fake_share)} of reports were fake, an estimate could be off by", radius)]
    if np.isfinite(decoding.noise_floor):
        facts.append(Fact("Detection limit", limit_in_words(decoding)))
    facts += _groups(decoding, snapshot)
    if found.num_columns > 1:
        facts.append(Fact("Told apart", f"{found.rank:,} of {found.num_columns:,} values"))
    if found.indistinguishable:
        groups = "; ".join(", ".join(group[:4]) for group in found.indistinguishable[:5])
        facts.append(Fact("Not told apart by this hash", groups))
    if found.hidden_heavy_share:
        share = percent(found.hidden_heavy_share)
        facts.append(Fact("Outside the list", f"a string held by about {share} is not in it"))
    whom = "the installs that reported" if decoding.estimand == "reporting" else "the population behind them"
    facts.append(Fact("Intervals describe", whom))
    return tuple(facts)


def _groups(decoding: Decoding, snapshot: Snapshot) -> list[Fact]:
    what = "group" if decoding.distribution is None else "level"
    sizes = np.array(
        [
            sum(counts.num_reports[cohort] for counts in tally.epochs.values())
            for tally in undivided(snapshot.tallies.get(decoding.metric, ()))
            for cohort in range(tally.metric.shape.num_cohorts)
        ]
    )
    if len(sizes) < 2:
        return []
    counted = f"{len(sizes):,}, of {sizes.min():,} to {sizes.max():,} reports"
    facts = [Fact(f"{what.capitalize()}s of installs", counted)]
    agree = f"{what.capitalize()}s agree with each other"
    odd = decoding.diagnostics.odd_cohorts
    if np.isnan(decoding.diagnostics.cohort_p).all():
        facts.append(Fact(agree, "cannot be checked with these reports"))
    elif odd:
        some = ", ".join(map(str, odd[:10]))
        facts.append(Fact(agree, f"no: {what}s {some} do not fit, broken or tampered with"))
    else:
        facts.append(Fact(agree, "yes, as far as noise lets one tell"))
    return facts
