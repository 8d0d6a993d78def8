"""Where to read on after a gap: the next position that is proven to begin a frame."""
