"""Rates, bottlenecks and states, computed from answers to ``status``. Commands, page and reports show these figures."""
