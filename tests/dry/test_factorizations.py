"""Solvers that take pivots: LAPACK reads rows by them, and unknown ones must not lead it out of the matrix."""

import pytest
from dry_running import locus

SOLVE = """
    import torch
    import locus
    big = torch.randn(3000, 3000, device="cuda")
    matrix = big[:4, :4] @ big[:4, :4].T
    matrix = matrix.expand(3, 4, 4) if {batched} else matrix
    factors, pivots = torch.linalg.{factor}(matrix)
    if {batched}:
        factors, pivots = factors[:1].expand(3, 4, 4), pivots[:1].expand(3, 4)
    right = big[:4, :3].contiguous()
    guards = [torch.ones(128, device="cuda") for _ in range(40)]
    del guards[::2]
    for again in range(12):
        for out in (torch.empty(0, device="cuda"), torch.empty_like(right.expand(*matrix.shape[:-2], 4, 3))):
            torch.linalg.{solve}(factors, pivots, right, out=out)
            print(tuple(out.shape), locus.is_known(out))
    print(all(bool((guard == 1).all()) for guard in guards), locus.is_known(guards[0]))
    host = [t.cpu() for t in (factors, pivots, right)]
    before = host[1].tolist()
    print(tuple(torch.linalg.{solve}(*host).shape), host[1].tolist() == before)
"""


@pytest.mark.parametrize("factor, solve", [("ldl_factor", "ldl_solve"), ("lu_factor", "lu_solve")])
@pytest.mark.parametrize("batched", [False, True])
def test_unknown_pivots_are_rows_of_the_matrix(tmp_path, factor, solve, batched):
    source = SOLVE.format(factor=factor, solve=solve, batched=batched)
    out, _ = locus(tmp_path, "run", "--dry", source=source, status=0)
    shape = "(3, 4, 3)" if batched else "(4, 3)"
    assert out == f"{shape} False\n" * 24 + "True True\n" + f"{shape} True\n"
