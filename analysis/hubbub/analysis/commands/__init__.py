"""The commands of the analyst: decode and plan."""
