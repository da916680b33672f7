"""Table logic on arrays, without shared memory, processes or clocks."""
