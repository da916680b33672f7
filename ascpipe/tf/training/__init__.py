"""What a program differentiates and updates: its losses are noted, and its own optimizers train tables."""
