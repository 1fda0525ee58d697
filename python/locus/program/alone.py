"""What the ranks that Locus starts find in their environment, beside torchrun's own variables. No torch."""

from __future__ import annotations

ONE_MACHINE_VARIABLE = "LOCUS_ONE_MACHINE"
"""Set where the hosts of a cluster are this machine, each of them: `--nnodes`."""
