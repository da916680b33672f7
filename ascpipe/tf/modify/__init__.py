"""Graph modification: lookups of tensors, whose ids are moved into the dataset."""
