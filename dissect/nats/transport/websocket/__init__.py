"""WebSocket: the HTTP upgrade and frames -> the bytes that messages carry."""
