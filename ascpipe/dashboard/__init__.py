"""Page that shows a training run in a browser: current figures, the history of the last hour, and a web server."""
