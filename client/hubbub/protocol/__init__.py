"""What both ends must change together: metrics, channels, encodings, bytes. Standard library and mmh3 only."""
