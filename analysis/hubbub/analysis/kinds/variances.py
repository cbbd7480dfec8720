"""Variances of one report that the kinds' plans are made of. docs/planning.md derives them."""

from __future__ import annotations

from hubbub.protocol.channel import Noise


def bit_variance(noise: Noise, share: float) -> float:
    """n Var of the share behind one bit: p*(1 - p*)/(q* - p*)**2 + share (1 - p* - q*)/(q* - p*)."""
    q, p = float(noise.q_star), float(noise.p_star)
    return p * (1 - p) / (q - p) ** 2 + share * (1 - p - q) / (q - p)


def tree_gain(branching: int, levels: int, of: int | None = None) -> float:
    """The variance of a node of level `of` (unless said, a leaf) by least squares over a whole tree of so many levels,
    in units of one node's own variance.

    All levels see every contrast between siblings of a level above them, each at B times the variance of the one
    before (Hay, Rastogi, Miklau, Suciu 2010, solved level by level): contrasts of level l have precision
    1 + 1/B + ... over the levels from l down, and reach the node divided by B for each level between.
    """
    node = levels if of is None else of
    found = 0.0
    for level in range(1, node + 1):
        precision = sum(float(branching) ** (level - deeper) for deeper in range(level, levels + 1))
        found += (1 - 1 / branching) / (precision * float(branching) ** (2 * (node - level)))
    whole = sum(float(branching) ** -level for level in range(1, levels + 1))
    return found + 1 / (whole * float(branching) ** (2 * node))
