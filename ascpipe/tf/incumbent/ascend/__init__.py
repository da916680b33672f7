"""Stand-ins for packages of Ascend servers. Programs can import them on machines without an Ascend card."""
