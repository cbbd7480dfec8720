"""Figures for the public: exact noise, what a reader learns, and the ledger of what was said."""
