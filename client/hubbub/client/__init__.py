"""The thing apps embed: noise made once, kept for life, under a budget."""
