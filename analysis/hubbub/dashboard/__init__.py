"""The analyst's page: estimates with intervals in a browser, live, from a collector or from tally files."""
