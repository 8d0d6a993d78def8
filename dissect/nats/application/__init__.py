"""The protocols above NATS, one module or package each: frames of a session -> rows of tables."""
