"""Page that shows a training in a browser: its figures, their history of an hour, and the server of the page."""
