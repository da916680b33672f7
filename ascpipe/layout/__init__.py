"""Bytes, states and codes that processes and languages share.

The package imports only numpy, so every layer may import it.
"""
