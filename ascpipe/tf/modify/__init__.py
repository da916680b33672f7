"""Graph modification, which moves the ids of lookups of tensors into the dataset."""
