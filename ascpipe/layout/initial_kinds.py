"""Kinds of initial rows; a and b are parameters of the table.  Checkpoints have these numbers, too."""
CONSTANT = 0  #: a
UNIFORM = 1  #: [a, b)
NORMAL = 2  #: mean a, standard deviation b
TRUNCATED_NORMAL = 3  #: the same, without what lies beyond two standard deviations
POOL = 4  #: a row of the table's pool, picked by hash; the pool is saved with the table
