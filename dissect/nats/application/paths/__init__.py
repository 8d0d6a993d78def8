"""One message across the system: its hops, from every session that carried it -> the rows of `paths`."""
