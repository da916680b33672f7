"""Bytes, states and codes that processes and languages share. It imports only numpy, so every layer may import it."""
