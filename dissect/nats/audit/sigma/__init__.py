"""Rule files in Sigma's format -> checked rules; errors name the line."""
