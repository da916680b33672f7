"""How a process is told where the machine code of the kernels lies."""
VARIABLE = "KERNEL_LIBRARY"  #: of the environment: path of a library; empty or unset = numba has it, or compiles
