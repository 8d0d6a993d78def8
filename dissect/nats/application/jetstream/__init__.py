"""JetStream, key-value buckets and object stores: frames of a session -> rows of tables."""
