"""Several processes: workers dissect their shares of the flows, and a pool merges their rows."""
