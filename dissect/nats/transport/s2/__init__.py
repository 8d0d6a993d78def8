"""S2 and Snappy: compressed routes and leafnodes -> the bytes before compression."""
