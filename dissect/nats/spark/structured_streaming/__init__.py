"""Structured Streaming: a folder of captures as a source, and the state that is kept between batches."""
