"""The paper's method, one equation or algorithm a module: POD, f_a, AIS, Algorithm 1, head selection, Theorem 1."""
