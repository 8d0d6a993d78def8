"""Records and blocks of frames -> Arrow, and back."""
