"""`nats-dissect top`: a live view of a capture or of a network interface."""
