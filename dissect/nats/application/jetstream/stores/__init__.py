"""Key-value buckets and object stores, which are streams: frames of a session -> rows of tables."""
