"""How a process is told where the machine code of the kernels lies, and what makes that library."""
VARIABLE = "KERNEL_LIBRARY"  #: of the environment: path of a library; empty or unset = numba has it, or compiles
NUMBA_FOLDER = "numba"  #: below NUMBA_CACHE_DIR: what numba keeps of kernels
COMPILERS = ("gcc", "cc", "clang")  #: of C; the first of them that is on the path links it
