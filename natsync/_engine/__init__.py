"""The private modules of the client: nothing here is for users, and any of it may change."""
