"""What answers requests: the application, its limits, its tokens, and the connections under it."""
