"""The embedded store: a synced log, batch ids, counts and their checkpoint, in one data folder."""
