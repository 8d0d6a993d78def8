"""TLS: handshakes and secrets -> what records carry, where they can be decrypted."""
