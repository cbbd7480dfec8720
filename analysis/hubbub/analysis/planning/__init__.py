"""What must be collected to see something, said before anything is."""
