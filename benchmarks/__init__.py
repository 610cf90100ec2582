"""How fast and how big. Scripts that print ratios; nothing in here is timed by a test."""
