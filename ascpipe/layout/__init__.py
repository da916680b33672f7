"""Memory layouts, states and error codes that all processes share, in Python and in C++.

The package imports only numpy, so every layer may import it.
"""
