"""TCP: segments of many connections -> flows, and in-order chunks and gaps of each direction."""
