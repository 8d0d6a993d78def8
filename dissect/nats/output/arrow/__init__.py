"""Records and runs of frames -> Arrow, and back."""
