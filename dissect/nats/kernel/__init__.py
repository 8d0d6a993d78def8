"""The kernel: plain packets of connections that Python has handed over, at the speed of machine code."""
