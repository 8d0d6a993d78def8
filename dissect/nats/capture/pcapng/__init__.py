"""pcapng files: reads their packets, and writes the blocks of several files as one section."""

from .packets import (
    HEADER,
    LARGEST_BLOCK,
    MAGIC,
    block_fault,
    is_section,
    read_pcapng,
    type_and_size,
)

__all__ = [
    "HEADER",
    "LARGEST_BLOCK",
    "MAGIC",
    "block_fault",
    "is_section",
    "read_pcapng",
    "type_and_size",
]
