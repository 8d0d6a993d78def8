"""Follows one message across the system: its hops in all sessions -> rows of the table `paths`."""
