"""Operations on the arrays of a table. The package creates no shared memory and no process, and reads no clock."""
