"""One session in full: its frames and facts, and its conversation as text."""
