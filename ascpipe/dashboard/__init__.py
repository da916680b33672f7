"""Web page that shows the current statistics and the last hour of a training run, and the server for the page."""
