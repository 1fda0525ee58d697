# ruff: noqa: E501
"""What is simulated, partly simulated, and not: the one table behind docs/simulated.md and `locus doctor`.

Each row names the tests that prove it; tests/conformance/test_simulated_page.py sees to it that they exist.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """One row: what, whether ("yes", "partly", "no"), what to know about it, and where it is tested."""

    name: str
    status: str
    notes: str
    test: str


_FEATURES = "tests/conformance/test_features.py::"
_TYPES = "tests/conformance/test_types.py::"
_DATABASES = "tests/conformance/test_databases.py::test_first_samples"

SECTIONS: dict[str, list[Feature]] = {
    "Programs": [
        Feature(
            "tensors on `cuda:0` … `cuda:63`",
            "yes",
            "`device`, `is_cuda`, `get_device()`, `data_ptr()` as on a card; the memory behind `data_ptr()` can't be read on "
            "the host",
            "tests/python/test_devices.py",
        ),
        Feature(
            "eager operators",
            "yes",
            "every `aten` operator with a CPU kernel or a composite one; those that PyTorch has for the CPU only "
            "(`histogram`, …) raise PyTorch's error, as on a card",
            _DATABASES,
        ),
        Feature(
            "operators that PyTorch has for CUDA only",
            "partly",
            "fused LSTM and GRU cells, memory-efficient attention, `softmax` and matrix products from half to float are "
            "written with CPU operators; the others refuse by name",
            "tests/conformance/test_device_only.py::test_each_refuses_by_name",
        ),
        Feature(
            "autograd, double backward, hooks, custom `autograd.Function`",
            "yes",
            "one thread for each device, as on a card",
            "tests/python/test_features.py::test_hooks_see_device_tensors",
        ),
        Feature("`torch.func`, `torch.vmap`", "yes", "", _FEATURES + "test_func"),
        Feature("activation checkpointing, both kinds", "yes", "", _FEATURES + "test_checkpointing"),
        Feature("TorchScript, traced and scripted", "yes", "", _FEATURES + "test_jit_and_export"),
        Feature(
            "`torch.export` of a CUDA module",
            "yes",
            "the exported program runs eagerly",
            _FEATURES + "test_jit_and_export",
        ),
        Feature(
            "`torch.compile`",
            "partly",
            "runs eagerly, and says so once",
            "tests/e2e/test_simulate_programs.py::test_program",
        ),
        Feature(
            "AOTInductor, Triton",
            "no",
            "not tested; **!** code that is compiled for CUDA looks for a real GPU",
            "",
        ),
        Feature(
            "optimizers: for-loop, `foreach=`, `fused=`, `capturable=`, `differentiable=`",
            "yes",
            "every optimizer of `torch.optim`",
            _DATABASES,
        ),
        Feature(
            "autocast, `GradScaler`",
            "yes",
            "CUDA's lists of operators and dtypes",
            "tests/python/test_features.py::test_autocast",
        ),
        Feature(
            "LSTM, GRU, RNN, their cells, packed sequences, projections",
            "yes",
            "PyTorch's path without cuDNN",
            _FEATURES + "test_recurrent",
        ),
        Feature(
            "`scaled_dot_product_attention`",
            "yes",
            "the CPU's fused kernel where it applies, else the decomposed one; also with dropout or a mask that needs a "
            "gradient. cuDNN's backend alone: PyTorch's \"No viable backend\"",
            _FEATURES + "test_attention_backends",
        ),
        Feature("`flex_attention`", "yes", "without `torch.compile`: unfused", _FEATURES + "test_flex_attention"),
        Feature(
            "convolutions",
            "yes",
            "the CPU's kernels; `torch.backends.cudnn` settings change nothing but errors' words",
            _DATABASES,
        ),
        Feature(
            "`torch.use_deterministic_algorithms`",
            "partly",
            "new memory is filled as on a card; **!** operators that a card refuses then (the backward pass of "
            "`grid_sample`, say) run",
            "tests/conformance/test_both_devices.py::test_deterministic_algorithms",
        ),
        Feature(
            "half precision and bfloat16", "yes", "where the CPU has the kernel", _FEATURES + "test_half_precision"
        ),
        Feature(
            "types that a card computes in and the CPU does not (`histc` of integers, `avg_pool3d`, margin losses, FFT in "
            "half precision)",
            "yes",
            "computed in a wider type and rounded",
            _TYPES + "test_types_that_only_a_card_computes_in",
        ),
        Feature(
            "types that the CPU computes in and a card does not (products, convolutions and pooling of integers)",
            "partly",
            "they run, with the CPU's result; a card refuses them: `\"addmm_cuda\" not implemented for 'Long'`",
            _TYPES + "test_types_that_only_the_cpu_computes_in",
        ),
        Feature("FFT, linear algebra, complex numbers", "yes", "", _FEATURES + "test_fft_linalg_complex"),
        Feature(
            "`grid_sample`, `interpolate`, CTC, `EmbeddingBag`", "yes", "", _FEATURES + "test_images_sequences_bags"
        ),
        Feature("sparse COO, CSR, CSC, BSR, BSC", "yes", "where the CPU has the operator", _FEATURES + "test_sparse"),
        Feature(
            "sparse tensors on another device than the current one",
            "yes",
            "",
            _FEATURES + "test_sparse_away_from_the_current_device",
        ),
        Feature(
            "nested tensors, strided and jagged", "yes", "where the CPU has the operator", _FEATURES + "test_nested"
        ),
        Feature(
            "quantized tensors on the device", "no", "refused by name", _FEATURES + "test_quantized_is_refused_by_name"
        ),
        Feature("other layouts (such as MKL-DNN) on the device", "no", "refused by name", ""),
        Feature(
            "NumPy, DLPack, `__cuda_array_interface__`",
            "partly",
            "`.cpu().numpy()` and DLPack within PyTorch work; a library that follows a device pointer ends in a segmentation "
            "fault that names the tensor",
            _FEATURES + "test_dlpack_and_array_interface",
        ),
        Feature(
            "`torch.save`, `torch.load`, `map_location`", "yes", "", "tests/python/test_features.py::test_save_and_load"
        ),
        Feature("`copy.deepcopy`, `pickle`", "yes", "", "tests/python/test_features.py::test_deepcopy_and_pickle"),
        Feature("`torch.utils.data`: workers, samplers, `pin_memory`", "yes", "", _FEATURES + "test_data"),
        Feature("`torch.nn.utils.rnn`", "yes", "", _FEATURES + "test_sequence_helpers"),
        Feature(
            "`parametrize`, spectral and weight norm, pruning, averaged models",
            "yes",
            "",
            _FEATURES + "test_parametrizations_and_pruning",
        ),
        Feature("`torch.distributions`", "yes", "", _FEATURES + "test_distributions"),
        Feature(
            "`nn.DataParallel`, `torch.cuda.comm`, `torch.nn.parallel`",
            "yes",
            "plain copies; nothing is packed or overlapped",
            _FEATURES + "test_comm",
        ),
        Feature(
            "`torch.distributed` with the backend `nccl`",
            "yes",
            "carried by Gloo: `all_reduce` (sum, avg, product, min, max, premul_sum), `broadcast`, `reduce`, `all_gather` "
            "(uneven too), `all_gather_into_tensor`, `reduce_scatter`, `reduce_scatter_tensor`, `all_to_all`, "
            "`all_to_all_single`, `gather`, `scatter`, `send`, `recv`, `batch_isend_irecv`, `barrier`, coalesced and object "
            "collectives, `new_group`, `cpu:gloo,cuda:nccl`. NCCL's rules are checked; `torch.cuda.nccl.version()` is a "
            "made-up 2.27.5",
            "tests/dist/test_programs.py",
        ),
        Feature("Gloo on CUDA tensors", "yes", "the same calls", "tests/dist/test_programs.py"),
        Feature(
            "`DistributedDataParallel`",
            "yes",
            "the losses of Gloo on the CPU; `no_sync`, buffers, hooks, `DistributedSampler`, checkpoints",
            "tests/dist/test_programs.py",
        ),
        Feature(
            "`SyncBatchNorm`",
            "yes",
            "its formulas in the CPU's operators: those of `BatchNorm` over all ranks' batches, up to rounding",
            "tests/dist/test_programs.py",
        ),
        Feature(
            "`fully_shard`, `FullyShardedDataParallel`, DTensor, tensor parallelism",
            "yes",
            "without overlap of communication and computation",
            "tests/dist/test_programs.py",
        ),
        Feature("sparse all-reduce, `recv` from any source", "no", "refused by name", ""),
        Feature(
            "custom operators (`torch.library`)",
            "yes",
            "one that has a kernel for the CPU only is served by it; a real card would raise",
            _FEATURES + "test_custom_operators",
        ),
        Feature(
            "C++ and CUDA extensions",
            "partly",
            "what is registered for the CPU, or calls PyTorch operators, runs; what launches kernels fails",
            "tests/conformance/test_extension.py::test_extension_with_a_cpu_kernel_only",
        ),
        Feature(
            "FakeTensor, meta tensors, dispatch and function modes",
            "yes",
            "",
            "tests/python/test_features.py::test_fake_tensors_and_meta",
        ),
    ],
    "`torch.cuda` and `torch.accelerator`": [
        Feature(
            "`is_available`, `device_count`, `set_device`, `device(…)`, …",
            "yes",
            'an index that is not there: "CUDA error: invalid device ordinal"',
            "tests/python/test_devices.py",
        ),
        Feature(
            "`CUDA_VISIBLE_DEVICES`",
            "yes",
            "as the program sets it before it uses CUDA; its value outside is about the real machine",
            "tests/python/test_processes.py",
        ),
        Feature(
            "device properties",
            "partly",
            'those of `--card`; else one made-up card, "Locus simulated GPU", compute capability 9.0, 132 multiprocessors, '
            "the memory you asked for",
            "tests/python/test_surface.py",
        ),
        Feature(
            "`torch.version.cuda`, `get_arch_list()`",
            "partly",
            "a CPU build answers `13.0` while devices are simulated",
            "tests/python/test_surface.py",
        ),
        Feature(
            "`Stream`, `Event`, `current_stream`, `synchronize`",
            "yes",
            "kernels run at once; order and waits are followed, `elapsed_time` is the host's clock",
            "tests/python/test_streams.py",
        ),
        Feature(
            "`CUDAGraph`, `torch.cuda.graph`, `make_graphed_callables`, `torch.accelerator.Graph`",
            "yes",
            "values, private pools, generators, a card's refusals",
            "tests/python/test_graphs.py",
        ),
        Feature(
            "`torch.cuda._sanitizer`, GPU-trace callbacks",
            "yes",
            "streams, events, memory",
            "tests/python/test_gpu_trace.py",
        ),
        Feature(
            "`ExternalStream`", "partly", "only with a simulated stream's own handle", "tests/python/test_streams.py"
        ),
        Feature(
            "generators, `manual_seed`, `get_rng_state`",
            "yes",
            "Mersenne Twister, not Philox: other numbers than a card's; `get_offset()` refuses",
            "tests/python/test_rng.py",
        ),
        Feature(
            "memory statistics, `memory_snapshot`, `memory_summary`",
            "yes",
            "what PyTorch's caching allocator would do",
            "tests/python/test_memory.py",
        ),
        Feature(
            "`OutOfMemoryError`, `set_per_process_memory_fraction`, `mem_get_info`",
            "yes",
            "[how-to/memory.md](how-to/memory.md)",
            "tests/python/test_memory.py",
        ),
        Feature(
            "`PYTORCH_CUDA_ALLOC_CONF`",
            "yes",
            "all that is about memory, also `expandable_segments`; what PyTorch refuses is refused in its words when CUDA "
            "is first used. `backend:cudaMallocAsync` counts as PyTorch's own allocator, and says so once",
            "tests/python/test_allocator_settings.py",
        ),
        Feature(
            "`memory._record_memory_history`, `_snapshot`, `_dump_snapshot`, out-of-memory observers",
            "yes",
            "with Python's frames, also where `stacks=\"all\"` asks for those of C++: the kernels are not a card's",
            "tests/python/test_memory_history.py",
        ),
        Feature(
            "`MemPool`, `use_mem_pool`",
            "yes",
            "except with an allocator of its own",
            "tests/python/test_pools.py",
        ),
        Feature(
            "pinned memory",
            "yes",
            "counted as PyTorch's allocator of it does (`host_memory_stats`), without times",
            "tests/python/test_memory.py",
        ),
        Feature("NVTX", "partly", "ranges nest, nobody records them", "tests/python/test_surface.py"),
        Feature("`torch.profiler`", "partly", "CPU time only, and says so once", "tests/e2e/test_simulate_programs.py"),
        Feature(
            "`set_sync_debug_mode`",
            "partly",
            "remembered; warns of nothing (`locus check --ledger` lists synchronizations)",
            "tests/python/test_surface.py",
        ),
        Feature(
            "`torch.cuda.cudart()`",
            "partly",
            "profiler start and stop, error strings, `cudaMemGetInfo`",
            "tests/python/test_surface.py",
        ),
        Feature(
            "`torch.cuda.FloatTensor` and the like",
            "yes",
            "",
            "tests/python/test_features.py::test_default_device_and_tensor_types",
        ),
    ],
    "Processes and threads": [
        Feature("threads", "yes", "current device and streams are each thread's own", "tests/python/test_processes.py"),
        Feature(
            "`spawn`, `forkserver`, `subprocess`",
            "yes",
            "children inherit the machine by the environment",
            "tests/python/test_processes.py",
        ),
        Feature("`fork` after CUDA was used", "yes", "refused with PyTorch's words", "tests/python/test_processes.py"),
        Feature("device memory shared between processes", "no", "refused by name", "tests/python/test_surface.py"),
    ],
    "A check": [
        Feature("operators of the main thread, Python threads, `backward()`", "yes", "", "tests/check/test_wrong.py"),
        Feature(
            "operators of other processes (`DataLoader` workers, `spawn`, ranks)",
            "yes",
            "each process checks itself; one report of all",
            "tests/dist/test_launching.py",
        ),
        Feature(
            "operators inside TorchScript",
            "yes",
            "the line is the one that called the script",
            "tests/check/test_wrong.py",
        ),
        Feature(
            "custom operators (`torch.library`)", "partly", "they check for themselves; their parts are checked", ""
        ),
        Feature("`.numpy()` of a CUDA tensor", "yes", "LOC017; goes on with a copy", "tests/python/test_host_read.py"),
        Feature(
            "other host access (DLPack, `ctypes`, plotting libraries that don't go through `.numpy()`)",
            "no",
            "PyTorch's error, or a fault that names the tensor",
            "",
        ),
        Feature(
            "races between streams, copies, the allocator, collectives and the host",
            "yes",
            "LOC020, LOC034 to LOC036; host threads count as one. [how-to/streams.md](how-to/streams.md)",
            "tests/check/test_streams.py",
        ),
        Feature("CUDA in a forked DataLoader worker", "partly", "LOC018, read from what the worker raised", ""),
        Feature("values that are wrong for other reasons (wrong shapes)", "no", "", ""),
    ],
}

INTRODUCTION = """\
Kernels are PyTorch's own CPU kernels, so every value is real. What a simulated device does not have raises
`locus.errors.NotSimulated` (a `NotImplementedError`) with the name and the way out. Exceptions to that are marked
**!**. `locus doctor` prints this for the PyTorch that is installed."""
