"""What tests share, one file a subject: pytest plugins, servers, makers of test data."""
