"""Rates, bottlenecks and states for commands, dashboard and reports, computed from answers to ``status``."""
