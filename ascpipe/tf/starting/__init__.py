"""Start of the pipeline for a complete graph."""
