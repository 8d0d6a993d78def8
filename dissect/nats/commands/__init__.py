"""The commands of `nats-dissect`: what each of them reads and prints."""
