"""Segments of many TCP connections -> in-order chunks and gaps of each."""
