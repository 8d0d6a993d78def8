"""Records -> text for people."""
