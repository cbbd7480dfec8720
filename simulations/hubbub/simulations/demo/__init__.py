"""The whole loop, live."""
