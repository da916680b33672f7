"""Collectives, and ops of the card."""
