"""Compiled loops over arrays and structs, without system calls.

A kernel depends only on its arguments, and changes only arrays and structs that its docstring names. The caller owns
the arrays; they may be in shared memory. A kernel does not check sizes. The plain-Python version of each kernel has the
same name in ``tests/reference/``. Import only the modules that you need: importing a module loads or compiles its
kernels (see ``door``).
"""
