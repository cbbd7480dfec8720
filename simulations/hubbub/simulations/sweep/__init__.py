"""Many settings at once, against theory and the bound."""
