"""Records in, tables, figures and claims out. Sees records and published numbers only, and imports no torch."""
