"""One file for each kind of metric: from pooled tallies to a decoding."""
