"""Logic of a table, on arrays. The package creates no shared memory and no process, and reads no clock."""
