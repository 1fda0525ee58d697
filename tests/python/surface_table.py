# ruff: noqa: UP031
"""One line for every public name of torch.cuda and torch.accelerator: how to call it, and what a sensible answer is.

A line is (expression, expectation): the expression sees torch, name-spaced helpers and `x` (four floats on cuda:0);
the expectation is a predicate over the result `r`, as text, so that a failure can show both.
MAY_REFUSE lists the names that need a card or a driver; those may say "not simulated" instead.
"""

_tensor_types = ["BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"]
_storages = [*_tensor_types, "ComplexDouble", "ComplexFloat"]

GRAPH_HOOKS = (
    "register_graph_capture_start_hook",
    "register_graph_capture_end_hook",
    "register_graph_instantiate_hook",
    "register_graph_destroy_hook",
    "register_graph_replay_end_hook",
    "register_graph_replay_start_hook",
)

CUDA = {
    **{
        f"{t}Tensor": (
            f"torch.cuda.{t}Tensor([1, 0])",
            "r.is_cuda and r.tolist() == [1, 0] and r.type() == 'torch.cuda.%sTensor'" % t,
        )
        for t in _tensor_types
    },
    **{f"{t}Storage": (f"torch.cuda.{t}Storage(3)", "len(r) == 3 and r.is_cuda") for t in _storages},
    "CUDAGraph": ("torch.cuda.CUDAGraph()", "r is not None"),
    "CUDAPluggableAllocator": ("torch.cuda.CUDAPluggableAllocator('no.so', 'a', 'f')", "False"),
    "CudaError": ("torch.cuda.CudaError(2)", "isinstance(r, RuntimeError)"),
    "DeferredCudaCallError": ("torch.cuda.DeferredCudaCallError('x')", "isinstance(r, Exception)"),
    "Event": ("torch.cuda.Event(enable_timing=True)", "r.query()"),
    "ExternalStream": ("torch.cuda.ExternalStream(torch.cuda.Stream().cuda_stream)", "r.query()"),
    "GreenContext": ("torch.cuda.GreenContext.create(4)", "r is not None"),
    "MemPool": ("torch.cuda.MemPool()", "r is not None"),
    "MemPoolContext": ("torch.cuda.MemPoolContext", "r is not None"),  # until 2.7; nobody can make one
    "Stream": ("torch.cuda.Stream()", "r.query() and r.device == torch.device('cuda:0')"),
    "StreamContext": ("torch.cuda.StreamContext(torch.cuda.Stream())", "hasattr(r, '__enter__')"),
    "amp": ("torch.cuda.amp.autocast", "callable(r)"),
    "caching_allocator_alloc": (
        "torch.cuda.caching_allocator_alloc(1000)",
        "r != 0 and torch.cuda.caching_allocator_delete(r) is None",
    ),
    "caching_allocator_delete": (
        "torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(512))",
        "r is None",
    ),
    "caching_allocator_disabled": ("torch.cuda.caching_allocator_disabled()", "hasattr(r, '__enter__')"),
    "caching_allocator_enable": ("torch.cuda.caching_allocator_enable(True)", "r is None"),
    "can_device_access_peer": ("torch.cuda.can_device_access_peer(0, 1)", "isinstance(r, bool)"),
    "change_current_allocator": ("torch.cuda.change_current_allocator(None)", "False"),
    "check_error": ("torch.cuda.check_error(0)", "r is None"),
    "clock_rate": ("torch.cuda.clock_rate()", "r > 0"),
    "cudaStatus": ("torch.cuda.cudaStatus.SUCCESS", "r == 0"),
    "cudart": ("torch.cuda.cudart()", "r is not None"),
    "current_blas_handle": ("torch.cuda.current_blas_handle()", "isinstance(r, int)"),
    "current_device": ("torch.cuda.current_device()", "r == 0"),
    "current_solver_handle": ("torch.cuda.current_solver_handle()", "isinstance(r, int)"),
    "current_stream": ("torch.cuda.current_stream(1)", "r == torch.cuda.default_stream(1)"),
    "default_generators": ("torch.cuda.default_generators", "len(r) == 2 and r[1].device == torch.device('cuda:1')"),
    "default_stream": ("torch.cuda.default_stream()", "r == torch.cuda.current_stream()"),
    "device": ("torch.cuda.device(1)", "r.idx == 1"),
    "device_count": ("torch.cuda.device_count()", "r == 2"),
    "device_memory_used": ("torch.cuda.device_memory_used()", "r >= 0"),
    "device_of": ("torch.cuda.device_of(x)", "r.idx == 0"),
    "empty_cache": ("torch.cuda.empty_cache()", "r is None"),
    "get_allocator_backend": ("torch.cuda.get_allocator_backend()", "r in ('native', 'cudaMallocAsync')"),
    "get_arch_list": ("torch.cuda.get_arch_list()", "r and all(a.startswith(('sm_', 'compute_')) for a in r)"),
    "get_device_capability": (
        "torch.cuda.get_device_capability()",
        "isinstance(r, tuple) and len(r) == 2 and r >= (7, 0)",
    ),
    "get_device_name": ("torch.cuda.get_device_name(1)", "isinstance(r, str) and r"),
    "get_device_properties": (
        "torch.cuda.get_device_properties(1)",
        "r.total_memory == 8 << 30 and r.multi_processor_count > 0",
    ),
    "get_gencode_flags": ("torch.cuda.get_gencode_flags()", "isinstance(r, str)"),
    "get_per_process_memory_fraction": ("torch.cuda.get_per_process_memory_fraction()", "r == 1.0"),
    "get_rng_state": ("torch.cuda.get_rng_state()", "r.dtype == torch.uint8 and r.device.type == 'cpu'"),
    "get_rng_state_all": ("torch.cuda.get_rng_state_all()", "len(r) == 2"),
    "get_stream_from_external": ("torch.cuda.get_stream_from_external(torch.cuda.Stream().cuda_stream)", "r.query()"),
    "get_sync_debug_mode": ("torch.cuda.get_sync_debug_mode()", "r == 0"),
    "export_dot": ("torch.cuda.export_dot(None, '/nowhere')", "False"),
    "export_graph_data": ("torch.cuda.export_graph_data(None)", "False"),
    "graph": ("torch.cuda.graph(None)", "hasattr(r, '__enter__')"),
    "graph_annotations": ("torch.cuda.graph_annotations", "r is not None"),
    "graph_pool_handle": ("torch.cuda.graph_pool_handle()", "r is not None"),
    "graphs": ("torch.cuda.graphs.is_current_stream_capturing()", "r is False"),
    "has_half": ("torch.cuda.has_half", "r is True"),
    "has_magma": ("torch.cuda.has_magma", "isinstance(r, bool)"),
    "host_memory_stats": ("torch.cuda.host_memory_stats()", "isinstance(r, dict)"),
    "host_memory_stats_as_nested_dict": ("torch.cuda.host_memory_stats_as_nested_dict()", "isinstance(r, dict)"),
    "init": ("torch.cuda.init()", "r is None and torch.cuda.is_initialized()"),
    "initial_seed": ("torch.cuda.initial_seed()", "isinstance(r, int)"),
    "ipc_collect": ("torch.cuda.ipc_collect()", "r is None"),
    "is_available": ("torch.cuda.is_available()", "r is True"),
    "is_bf16_supported": ("torch.cuda.is_bf16_supported()", "r is True"),
    "is_current_stream_capturing": ("torch.cuda.is_current_stream_capturing()", "r is False"),
    "is_initialized": ("torch.cuda.is_initialized()", "r is True"),
    "is_tf32_supported": ("torch.cuda.is_tf32_supported()", "isinstance(r, bool)"),
    "jiterator": (
        "torch.cuda.jiterator._create_jit_fn('template <typename T> T f(T a) { return a; }')(x)",
        "torch.equal(r, x)",
    ),
    "list_gpu_processes": ("torch.cuda.list_gpu_processes()", "isinstance(r, str)"),
    "make_graphed_callables": (
        "torch.cuda.make_graphed_callables(torch.nn.Linear(4, 1).cuda(), (x,))",
        "r is not None",
    ),
    "manual_seed": ("torch.cuda.manual_seed(3)", "torch.cuda.initial_seed() == 3"),
    "manual_seed_all": ("torch.cuda.manual_seed_all(4)", "torch.cuda.default_generators[1].initial_seed() == 4"),
    "max_memory_allocated": ("torch.cuda.max_memory_allocated()", "r >= torch.cuda.memory_allocated() > 0"),
    "max_memory_cached": ("torch.cuda.max_memory_cached()", "r > 0"),
    "max_memory_reserved": ("torch.cuda.max_memory_reserved()", "r >= torch.cuda.memory_reserved() > 0"),
    "mem_get_info": ("torch.cuda.mem_get_info(1)", "r[1] == 8 << 30 and 0 < r[0] <= r[1]"),
    "memory": ("torch.cuda.memory.memory_allocated()", "r > 0"),
    "memory_allocated": ("torch.cuda.memory_allocated('cuda:0')", "r >= 512 and r % 512 == 0"),
    "memory_cached": ("torch.cuda.memory_cached()", "r > 0"),
    "memory_reserved": ("torch.cuda.memory_reserved()", "r >= torch.cuda.memory_allocated()"),
    "memory_snapshot": ("torch.cuda.memory_snapshot()", "isinstance(r, list)"),
    "memory_stats": (
        "torch.cuda.memory_stats()",
        "r['allocated_bytes.all.current'] == torch.cuda.memory_allocated() and r['num_ooms'] == 0",
    ),
    "memory_stats_as_nested_dict": (
        "torch.cuda.memory_stats_as_nested_dict()",
        "r['allocated_bytes']['all']['current'] == torch.cuda.memory_allocated()",
    ),
    "memory_summary": ("torch.cuda.memory_summary(abbreviated=True)", "'Allocated memory' in r"),
    "memory_usage": ("torch.cuda.memory_usage()", "r >= 0"),
    "nccl": ("torch.cuda.nccl.is_available([x])", "r is False"),
    "nvtx": ("torch.cuda.nvtx.mark('m')", "True"),
    "power_draw": ("torch.cuda.power_draw()", "r >= 0"),
    "profiler": ("torch.cuda.profiler.profile()", "hasattr(r, '__enter__')"),
    "random": ("torch.cuda.random.get_rng_state()", "r.numel() > 0"),
    "reset_accumulated_host_memory_stats": ("torch.cuda.reset_accumulated_host_memory_stats()", "r is None"),
    "reset_accumulated_memory_stats": (
        "torch.cuda.reset_accumulated_memory_stats()",
        "torch.cuda.memory_stats()['allocation.all.allocated'] == 0",
    ),
    "reset_max_memory_allocated": ("torch.cuda.reset_max_memory_allocated()", "r is None"),
    "reset_max_memory_cached": ("torch.cuda.reset_max_memory_cached()", "r is None"),
    "reset_peak_host_memory_stats": ("torch.cuda.reset_peak_host_memory_stats()", "r is None"),
    "reset_peak_memory_stats": (
        "torch.cuda.reset_peak_memory_stats()",
        "torch.cuda.max_memory_allocated() == torch.cuda.memory_allocated()",
    ),
    "seed": ("torch.cuda.seed()", "r is None"),
    "seed_all": ("torch.cuda.seed_all()", "r is None"),
    "set_device": ("torch.cuda.set_device(1)", "torch.cuda.current_device() == 1 and torch.cuda.set_device(0) is None"),
    "set_per_process_memory_fraction": ("torch.cuda.set_per_process_memory_fraction(1.0)", "r is None"),
    "set_rng_state": ("torch.cuda.set_rng_state(torch.cuda.get_rng_state())", "r is None"),
    "set_rng_state_all": ("torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())", "r is None"),
    "set_stream": ("torch.cuda.set_stream(torch.cuda.default_stream())", "r is None"),
    "set_sync_debug_mode": ("torch.cuda.set_sync_debug_mode('default')", "torch.cuda.get_sync_debug_mode() == 0"),
    "sparse": ("torch.cuda.sparse", "r is not None"),
    "stream": ("torch.cuda.stream(torch.cuda.Stream())", "hasattr(r, '__enter__')"),
    "streams": ("torch.cuda.streams.Stream()", "r.query()"),
    "synchronize": ("torch.cuda.synchronize(1)", "r is None"),
    "temperature": ("torch.cuda.temperature()", "r > 0"),
    "tunable": ("torch.cuda.tunable.is_enabled()", "isinstance(r, bool)"),
    "use_mem_pool": ("torch.cuda.use_mem_pool(torch.cuda.MemPool())", "hasattr(r, '__enter__')"),
    "utilization": ("torch.cuda.utilization()", "0 <= r <= 100"),
}

MODULES = {
    "torch.cuda.comm": {
        "broadcast": (
            "comm.broadcast(x, [0, 1])",
            "[str(t.device) for t in r] == ['cuda:0', 'cuda:1'] and r[1].tolist() == x.tolist()",
        ),
        "broadcast_coalesced": (
            "comm.broadcast_coalesced([x, x * 2], [0, 1])",
            "r[1][1].tolist() == (x * 2).tolist() and r[1][1].get_device() == 1",
        ),
        "reduce_add": (
            "comm.reduce_add([x, x.to('cuda:1')], destination=1)",
            "r.get_device() == 1 and r.tolist() == (2 * x).tolist()",
        ),
        "reduce_add_coalesced": (
            "comm.reduce_add_coalesced([[x], [x.to('cuda:1')]])",
            "r[0].tolist() == (2 * x).tolist()",
        ),
        "scatter": (
            "comm.scatter(x, [0, 1])",
            "[t.tolist() for t in r] == [[1, 2], [3, 4]] and r[1].get_device() == 1",
        ),
        "gather": ("comm.gather([x, x.to('cuda:1')])", "r.tolist() == x.tolist() * 2 and r.get_device() == 0"),
    },
    "torch.cuda.amp": {
        "amp_definitely_not_available": ("amp.amp_definitely_not_available()", "r is False"),
        "autocast": ("amp.autocast(dtype=torch.bfloat16)", "hasattr(r, '__enter__')"),
        "custom_bwd": ("amp.custom_bwd(lambda *a: a)", "callable(r)"),
        "custom_fwd": ("amp.custom_fwd(lambda *a: a)", "callable(r)"),
        "GradScaler": ("amp.GradScaler()", "r.is_enabled()"),
    },
    "torch.cuda.nvtx": {
        "range_push": ("nvtx.range_push('a')", "isinstance(r, int) or r is None"),
        "range_pop": ("nvtx.range_pop()", "isinstance(r, int) or r is None"),
        "range_start": ("nvtx.range_start('a')", "True"),
        "range_end": ("nvtx.range_end(nvtx.range_start('b'))", "r is None"),
        "mark": ("nvtx.mark('a')", "True"),
        "range": ("nvtx.range('a')", "hasattr(r, '__enter__')"),
    },
    "torch.cuda.profiler": {
        "init": ("profiler.init('a', output_mode='csv')", "r is None or r == 0"),  # until 2.6
        "start": ("profiler.start()", "r is None or r == 0"),
        "stop": ("profiler.stop()", "r is None or r == 0"),
        "profile": ("profiler.profile()", "hasattr(r, '__enter__')"),
    },
    "torch.cuda.graphs": {
        **{
            name: CUDA[name]
            for name in (
                "is_current_stream_capturing",
                "graph_pool_handle",
                "CUDAGraph",
                "graph",
                "make_graphed_callables",
                "export_dot",
                "export_graph_data",
            )
        },
        **{name: (f"torch.cuda.graphs.{name}(print)", "False") for name in GRAPH_HOOKS},
    },
    "torch.cuda.nccl": {
        name: (f"nccl.{name}([x, x.to('cuda:1')])", "r is None")
        for name in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter")
    },
    "torch.cuda.gds": {
        "is_available": ("gds.is_available()", "isinstance(r, bool)"),
        "gds_register_buffer": ("gds.gds_register_buffer(x.untyped_storage())", "False"),
        "gds_deregister_buffer": ("gds.gds_deregister_buffer(x.untyped_storage())", "False"),
        "GdsFile": ("gds.GdsFile('/nowhere', 0)", "False"),
    },
    "torch.cuda.green_contexts": {"GreenContext": CUDA["GreenContext"]},
}

ACCELERATOR = {
    "Graph": ("accelerator.Graph()", "r is not None"),
    "current_accelerator": ("accelerator.current_accelerator()", "r.type == 'cuda'"),
    "current_device_idx": ("accelerator.current_device_idx()", "r == 0"),
    "current_device_index": ("accelerator.current_device_index()", "r == 0"),
    "current_stream": ("accelerator.current_stream(1)", "r.device == torch.device('cuda:1')"),
    "device_count": ("accelerator.device_count()", "r == 2"),
    "device_index": ("accelerator.device_index(1)", "hasattr(r, '__enter__')"),
    "empty_cache": ("accelerator.empty_cache()", "r is None"),
    "empty_host_cache": ("accelerator.empty_host_cache()", "r is None"),
    "get_device_capability": ("accelerator.get_device_capability()", "torch.float32 in r['supported_dtypes']"),
    "get_memory_info": ("accelerator.get_memory_info(1)", "r[1] == 8 << 30 and 0 < r[0] <= r[1]"),
    "is_available": ("accelerator.is_available()", "r is True"),
    "max_memory_allocated": ("accelerator.max_memory_allocated()", "r >= 512"),
    "max_memory_reserved": ("accelerator.max_memory_reserved()", "r >= 512"),
    "memory_allocated": ("accelerator.memory_allocated()", "r == torch.cuda.memory_allocated()"),
    "memory_reserved": ("accelerator.memory_reserved()", "r == torch.cuda.memory_reserved()"),
    "memory_stats": ("accelerator.memory_stats()", "r['allocated_bytes.all.current'] == torch.cuda.memory_allocated()"),
    "reset_accumulated_memory_stats": ("accelerator.reset_accumulated_memory_stats()", "r is None"),
    "reset_peak_memory_stats": ("accelerator.reset_peak_memory_stats()", "r is None"),
    "set_device_idx": ("accelerator.set_device_idx(0)", "r is None"),
    "set_device_index": (
        "accelerator.set_device_index(1)",
        "torch.cuda.current_device() == 1 and accelerator.set_device_index(0) is None",
    ),
    "set_stream": ("accelerator.set_stream(accelerator.current_stream())", "r is None"),
    "synchronize": ("accelerator.synchronize()", "r is None"),
}

MAY_REFUSE = {
    *GRAPH_HOOKS,
    "export_dot",
    "export_graph_data",
    "CUDAGraph",
    "CUDAPluggableAllocator",
    "GreenContext",
    "change_current_allocator",
    "clock_rate",
    "cudart",
    "current_blas_handle",
    "current_solver_handle",
    "device_memory_used",
    "graph",
    "graph_pool_handle",
    "jiterator",
    "list_gpu_processes",
    "make_graphed_callables",
    "memory_usage",
    "power_draw",
    "temperature",
    "tunable",
    "utilization",
    "Graph",
    "gds_register_buffer",
    "gds_deregister_buffer",
    "GdsFile",
    "all_reduce",
    "reduce",
    "all_gather",
    "reduce_scatter",
}

# What PyTorch refuses on a card, in its own words.
CARD_REFUSES = {
    "get_device_capability": "Backend doesn't support getting device capabilities",
    "init": "cudaOutputMode is not simulated",
}
