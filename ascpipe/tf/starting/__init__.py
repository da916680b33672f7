"""From a graph that is complete to a pipeline that runs."""
