"""Experiments that reproduce the literature: what theory predicts is written down first, then the real code is run."""
