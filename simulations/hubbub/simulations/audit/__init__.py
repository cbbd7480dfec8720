"""Is the claim true? Measured epsilon of the real client code, beside what it states and what it enumerates to."""
