"""TLS: handshakes and secrets -> the plaintext of the records that can be decrypted."""
