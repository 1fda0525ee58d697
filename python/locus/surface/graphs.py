"""torch.cuda.CUDAGraph for simulated devices. What is kept and run again, and what a card refuses, is decided in C++
(locus/bridge/streams/graphs.cc); torch.cuda.graph and make_graphed_callables are PyTorch's own, on top of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from locus.program import bound_inputs, frozen_values, graphed_calls, kept_outputs
from locus.surface import not_simulated

if TYPE_CHECKING:
    from locus._bridge import Bridge

_bridge: Bridge = None  # type: ignore[assignment]  # until install()


class CUDAGraph:
    """Work that was captured on a stream, to be replayed."""

    def __init__(self, keep_graph: bool = False):
        torch.cuda._lazy_init()
        self._graph = _bridge.Graph()

    def capture_begin(
        self,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = False,
    ) -> None:
        """Begins to capture the current stream."""
        if capture_error_mode not in ("global", "thread_local", "relaxed"):
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._graph.capture_begin(pool, capture_error_mode)
        frozen_values.begin(self)

    def capture_end(self) -> None:
        """Ends the capture; what it has written is as it was before."""
        frozen_values.end()
        self._graph.capture_end()
        bound_inputs.begin(_bridge, self, self._graph)

    def instantiate(self) -> None:
        """Nothing is left to be done before a replay."""

    def replay(self) -> None:
        """Runs what was captured, on the current stream."""
        for name, value, now in frozen_values.changed(self):
            _bridge.report_graph("frozen", name, f"{value} in the graph, {now} now")
        for each in bound_inputs.before(_bridge, self, self._graph):
            _bridge.report_graph("bound", each.input.text, "gone" if each.is_gone else "")
        if graphed_calls.is_late(_bridge, self):
            _bridge.report_graph("saved", "backward", "")
        kept = kept_outputs.before(_bridge, self, self._graph)
        self._graph.replay()
        kept_outputs.after(_bridge, kept)

    def reset(self) -> None:
        """Lets go of what was captured."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The pool that the graph's memory is from."""
        return self._graph.pool()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Lets the graph draw from the generator."""
        self._graph.register_generator(generator)

    def enable_debug_mode(self) -> None:
        """Does nothing: there is nothing to dump."""

    def debug_dump(self, debug_path: str) -> None:
        """Not simulated: raises."""
        raise not_simulated.error("torch.cuda.CUDAGraph.debug_dump")

    def raw_cuda_graph(self) -> int:
        """Not simulated: raises."""
        raise not_simulated.error("torch.cuda.CUDAGraph.raw_cuda_graph")

    def raw_cuda_graph_exec(self) -> int:
        """Not simulated: raises."""
        raise not_simulated.error("torch.cuda.CUDAGraph.raw_cuda_graph_exec")


class AcceleratorGraph:
    """torch.accelerator.Graph: a graph that is its own context manager."""

    def __init__(
        self, keep_graph: bool = False, *, pool: tuple[int, int] | None = None, capture_error_mode: str = "default"
    ):
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode
        self._graph = CUDAGraph(keep_graph)

    def capture_begin(self) -> None:
        """Begins to capture the current stream."""
        mode = "global" if self.capture_error_mode == "default" else self.capture_error_mode
        self._graph.capture_begin(self.graph_pool, mode)

    def capture_end(self) -> None:
        """Ends the capture; what it has written is as it was before."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Nothing is left to be done before a replay."""

    def replay(self) -> None:
        """Runs what was captured, on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Lets go of what was captured."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """The pool that the graph's memory is from."""
        return self._graph.pool()

    def enable_debug_mode(self) -> None:
        """Does nothing: there is nothing to dump."""

    def debug_dump(self, path: str) -> None:
        """Not simulated: raises."""
        raise not_simulated.error("torch.accelerator.Graph.debug_dump")

    def __enter__(self) -> None:
        torch.accelerator.synchronize()
        self.capture_begin()

    def __exit__(self, *error: object) -> None:
        self.capture_end()


def install(bridge: Bridge) -> None:
    """Puts the class where torch.cuda, its parts and its users look for it."""
    global _bridge
    _bridge = bridge
    CUDAGraph.__module__ = "torch.cuda.graphs"
    for module in (torch.cuda, torch.cuda.graphs):
        module.CUDAGraph = CUDAGraph  # type: ignore[attr-defined]
    torch._C._CUDAGraph = CUDAGraph  # type: ignore[assignment, misc]
    torch._C._graph_pool_handle = bridge.new_pool
    torch.cuda.graphs._graph_pool_handle = bridge.new_pool  # type: ignore[attr-defined]
    if hasattr(torch.accelerator, "Graph"):  # from PyTorch 2.12 on
        AcceleratorGraph.__name__ = AcceleratorGraph.__qualname__ = "Graph"
        AcceleratorGraph.__module__ = "torch.accelerator.graphs"
        torch.accelerator.Graph = torch.accelerator.graphs.Graph = AcceleratorGraph  # type: ignore[assignment, misc]
