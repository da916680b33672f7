"""Export of graphs for serving. Lookups in an exported graph read table files."""
