"""The pytest plugin of natsync. It stands beside the package, because pytest imports the plugins of all
installed distributions before anything else: natsync is imported when a test asks for a server."""
