"""Stand-ins for packages of Ascend servers, on a machine without a card."""
