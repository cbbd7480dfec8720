"""What stands beside the numbers of a metric: its privacy label, what a careful reader checks, files to take away."""

from __future__ import annotations

import numpy as np

from hubbub.analysis.render.text import percent
from hubbub.analysis.result import Decoding
from hubbub.dashboard.figures import epsilon_figure
from hubbub.dashboard.html import Html, el
from hubbub.dashboard.query import View
from hubbub.dashboard.snapshot import Reading, Terms
from hubbub.protocol.epsilon import show
from hubbub.protocol.label import unprotected_of, words_of
from hubbub.protocol.metric import Definition

DOWNLOADS = ("csv", "json", "parquet", "png")


def privacy(definition: Definition, terms: Terms | None) -> Html:
    """Every number is derived from the definition that the tally carries, rounded up."""
    words = words_of(definition)
    facts = [
        ("One report", f"ε {show(definition.epsilon_one_report)}"),
        ("Seven reports", f"ε {show(definition.epsilon_after(7))}"),
        ("All reports of one answer", f"ε {show(definition.epsilon_permanent)}"),
    ]
    if terms is not None:
        lifetime = show(terms.max_values * definition.epsilon_permanent)
        facts.append((f"A whole life, {terms.max_values} answer{'s' * (terms.max_values != 1)}", f"ε {lifetime}"))
    details = [(name.capitalize(), _sentence(words[name])) for name in ("asked", "sent", "tells")]
    if terms is not None:
        details.append(("Who", f"{terms.owner}, until {terms.expires}."))
        if terms.hold is not None:
            details.append(("Held", f"An answer is kept for {terms.hold} epochs, whatever changes."))
    return el(
        "section",
        el("h2", "Privacy", id="privacy-title"),
        el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in facts], class_="facts"),
        epsilon_figure(definition) if definition.every != "once" else None,
        el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in details], class_="label"),
        el(
            "details",
            el("summary", "What is not protected"),
            el("ul", [el("li", sentence) for sentence in unprotected_of(definition)]),
        ),
        aria_labelledby="privacy-title",
        class_="panel",
    )


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:].rstrip(".") + "."


def diagnostics(decoding: Decoding, reading: Reading) -> Html:
    """What a careful reader checks before believing a table."""
    found = decoding.diagnostics
    unit = f" {decoding.unit}" if decoding.unit else ""
    radius = f"{found.attack_radius:.3g}{unit}" if decoding.kind == "mean" else percent(found.attack_radius)
    facts = [(f"If {percent(found.fake_share)} of reports were fake", f"an estimate could be off by {radius}")]
    facts += _cohorts(decoding, reading)
    if found.num_columns > 1:
        facts.append(("Told apart", f"{found.rank:,} of {found.num_columns:,} values"))
    if found.indistinguishable:
        groups = "; ".join(", ".join(group[:4]) for group in found.indistinguishable[:5])
        facts.append(("Not told apart by this hash", groups))
    if found.hidden_heavy_share:
        facts.append(("Outside the list", f"a string held by about {percent(found.hidden_heavy_share)} is not in it"))
    return el(
        "section",
        el("h2", "Diagnostics", id="diagnostics-title"),
        el("dl", [el("div", el("dt", name), el("dd", value)) for name, value in facts], class_="label"),
        aria_labelledby="diagnostics-title",
        class_="panel",
        id="diagnostics",
        data_live=True,
    )


def _cohorts(decoding: Decoding, reading: Reading) -> list[tuple[str, str]]:
    what = "level" if decoding.kind == "range" else "cohort"
    sizes = np.array(
        [
            sum(counts.num_reports[cohort] for counts in tally.epochs.values())
            for tally in reading.tallies.get(decoding.metric, ())
            for cohort in range(tally.metric.shape.num_cohorts)
        ]
    )
    if len(sizes) < 2:
        return []
    facts = [(f"{what.capitalize()}s", f"{len(sizes):,}, of {sizes.min():,} to {sizes.max():,} reports")]
    odd = decoding.diagnostics.odd_cohorts
    if np.isnan(decoding.diagnostics.cohort_p).all():
        facts.append(("Fit", "cannot be checked with these reports"))
    elif odd:
        some = ", ".join(map(str, odd[:10]))
        facts.append(("Fit", f"{what}s {some} do not fit the others: broken, or tampered with"))
    else:
        facts.append(("Fit", f"all {what}s agree, as far as noise lets one tell"))
    return facts


def downloads(name: str, view: View, *, drawable: bool) -> Html:
    """Exactly what `hubbub decode` writes."""
    words = {
        "csv": "CSV, for a spreadsheet",
        "json": "JSON, with diagnostics",
        "parquet": "Parquet, for a notebook",
        "png": "PNG, the chart for a slide",
    }
    kinds = [kind for kind in DOWNLOADS if drawable or kind != "png"]
    links = [
        el("li", el("a", words[kind], href=f"/metric/{name}/{name}.{kind}{view.query()}", download=True))
        for kind in kinds
    ]
    return el(
        "section",
        el("h2", "Downloads", id="downloads-title"),
        el("p", "Exactly what ", el("code", "hubbub decode"), " writes.", class_="note"),
        el("ul", links, class_="links"),
        aria_labelledby="downloads-title",
        class_="panel",
    )
