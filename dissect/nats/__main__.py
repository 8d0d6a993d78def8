"""`python -m dissect.nats`: the same as `nats-dissect`."""

from .cli import main

if __name__ == "__main__":
    main()
