"""TLS: handshakes and secrets -> the plaintext of records, where they can be decrypted."""
