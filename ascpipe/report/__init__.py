"""Report of a finished run: charts, advice and the HTML page. All functions are pure."""
