"""An archive of tables that grows with a sensor's captures, in one process."""
