"""What will be seen, said beforehand: populations that answer through the real client code."""
