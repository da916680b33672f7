"""Functions that compute rates, bottlenecks and states from answers to ``status``, for commands, dashboard and reports.
"""
