"""Graph modification: lookups of plain tensors, whose ids are moved into the dataset."""
