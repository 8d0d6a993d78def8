"""Frames of JetStream, key-value buckets and object stores -> the rows of their tables."""
