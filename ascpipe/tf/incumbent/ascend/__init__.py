"""What programs for Ascend servers take from packages beside the incumbent's, on a machine without a card."""
