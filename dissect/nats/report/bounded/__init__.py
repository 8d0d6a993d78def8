"""Counts of bounded size: the largest values, histograms of durations, numbers over time."""
