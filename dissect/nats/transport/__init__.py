"""The bytes of a TCP connection -> the bytes of NATS: what lies between the two."""
