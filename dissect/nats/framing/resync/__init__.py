"""Finds where to continue after a gap: the next position where a frame provably begins."""
