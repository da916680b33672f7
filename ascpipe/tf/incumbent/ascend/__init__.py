"""Stand-ins for packages of Ascend servers, which programs can import on machines without an Ascend card."""
