"""The commands of `nats-dissect`."""
