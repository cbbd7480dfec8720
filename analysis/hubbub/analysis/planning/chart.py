"""The picture of a plan: from which share on answers are seen, over reports, for a few epsilons."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import numpy as np

from hubbub.analysis.optional import need
from hubbub.analysis.planning.plan import Plan, share_for
from hubbub.analysis.render.charts import BLACK, BLUE, GREY, ORANGE
from hubbub.protocol.invalid import plural
from hubbub.protocol.printed import short_percent

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
_COLOURS = (GREY, BLUE, "#009E73", ORANGE)
_DASHES = ([2, 2], [1, 0], [6, 3], [10, 3, 2, 3])


def seen_shares(plan: Plan) -> list[dict[str, float | str]]:
    """The smallest share seen, for each epsilon and each number of reports."""
    around = 10.0 ** np.arange(3, 8.6, 0.25)
    found: list[dict[str, float | str]] = []
    for epsilon in EPSILONS:
        permanent = max(plan.epsilon_permanent, epsilon)
        for reports in around:
            asked = replace(
                plan,
                installs=float(reports),
                consent=1.0,
                epsilon_one_report=epsilon,
                epsilon_permanent=permanent,
                noise_given=None,
            )
            share = share_for(asked)
            if share != inf:
                found.append({"reports": float(reports), "share": share, "epsilon": f"epsilon {float(epsilon):g}"})
    return found


def plan_chart(plan: Plan) -> Any:
    """Lines that fall with the reports; the plan itself is a point. Told apart by colour and by dashes."""
    alt = need("altair", "'hubbub[charts]'")
    names = [f"epsilon {float(epsilon):g}" for epsilon in EPSILONS]
    lines = (
        alt.Chart(alt.Data(values=seen_shares(plan)))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("reports:Q", title="reports of one epoch", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y("share:Q", title="smallest share seen", scale=alt.Scale(type="log"), axis=alt.Axis(format="~%")),
            color=alt.Color("epsilon:N", title=None, scale=alt.Scale(domain=names, range=list(_COLOURS))),
            strokeDash=alt.StrokeDash("epsilon:N", title=None, scale=alt.Scale(domain=names, range=list(_DASHES))),
        )
    )
    point = alt.Chart(alt.Data(values=[{"reports": plan.reports, "share": plan.share}]))
    mark = point.mark_point(color=BLACK, size=90, filled=True, shape="diamond").encode(x="reports:Q", y="share:Q")
    title = alt.Title(
        f"What a {plan.shape.kind} shows",
        subtitle=f"power {short_percent(plan.power)}, {plural(plan.rule.tests, 'value')}; diamond: this plan",
    )
    return alt.layer(lines, mark).properties(width=440, height=280, title=title)
