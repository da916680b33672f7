"""Kinds of initial rows, as numbers in checkpoints. In the comments, a and b are parameters of the table."""
CONSTANT = 0  #: a
UNIFORM = 1  #: [a, b)
NORMAL = 2  #: mean a, standard deviation b
TRUNCATED_NORMAL = 3  #: normal, truncated at two standard deviations
POOL = 4  #: a row of the table's pool, chosen by hash; checkpoints contain the pool
