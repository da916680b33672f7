"""Stand-ins for packages of Ascend servers, for machines without an Ascend card."""
