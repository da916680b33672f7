"""Graph modification, which moves the computation of ids from the graph into the dataset."""
