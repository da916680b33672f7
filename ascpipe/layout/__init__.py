"""What processes and languages agree on: bytes, states, codes.  numpy and nothing else; every layer may import it."""
