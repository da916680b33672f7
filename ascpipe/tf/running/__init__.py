"""What runs beside a program: the pipeline, its native side, and what one process has of them."""
