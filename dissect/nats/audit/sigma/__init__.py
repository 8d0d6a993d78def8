"""Rule files in Sigma's format -> rules, checked, with the lines of what is wrong in them."""
