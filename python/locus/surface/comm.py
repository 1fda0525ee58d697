"""Copies between devices: what torch.cuda.comm and nn.DataParallel ask of the C++ side, with its checks and words.

Plain copies only: nothing is packed into buffers, no NCCL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise RuntimeError(message)


def _cuda(index: int) -> torch.device:
    _check(index >= 0, f"Expected non-negative device index, but got {index}")
    return torch.device("cuda", index)


def _check_cuda_output(i: int, out: Tensor) -> None:
    _check(
        out.is_cuda,
        f"Expected all output tensors to be CUDA tensors, but output tensor at index {i} has device '{out.device}'",
    )


def broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    """The tensor on each of the devices; itself where it is already."""
    return [tensor if index == tensor.get_device() else tensor.to(_cuda(index), non_blocking=True) for index in devices]


def broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor]:
    """Copies the tensor into each of `out`."""
    for i, target in enumerate(out):
        _check_cuda_output(i, target)
        _check(
            target.shape == tensor.shape,
            "Expected all output tensors to have same shape as the source tensor "
            f"{list(tensor.shape)}, but output tensor at index {i} has shape {list(target.shape)}",
        )
    for target in out:
        target.copy_(tensor, non_blocking=True)
    return out


def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    """All tensors on each of the devices; on the first they are the originals."""
    _check(
        all(tensor.get_device() == devices[0] for tensor in tensors), f"All tensors must be on devices[0]: {devices[0]}"
    )
    copies = [[tensor.to(_cuda(index), non_blocking=True) for tensor in tensors] for index in devices[1:]]
    return [list(tensors), *copies]


def scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Sequence[torch.cuda.Stream | None] | None = None,
) -> list[Tensor]:
    """Chunks of the tensor, one to each device."""
    _check(len(devices) > 0, "Expected at least one device to scatter to")
    if chunk_sizes is not None:
        _check(
            len(chunk_sizes) == len(devices),
            "Expected devices and chunk_sizes to be of same length, but got "
            f"len(devices) = {len(devices)} and len(chunk_sizes) = {len(chunk_sizes)}",
        )
        chunks = list(tensor.split_with_sizes(list(chunk_sizes), dim))
    else:
        chunks = list(tensor.chunk(len(devices), dim))
    for i, chunk in enumerate(chunks):
        index = devices[i]
        if index == tensor.get_device():
            continue
        stream = streams[i] if streams and i < len(streams) else None
        if stream is not None:
            _check(
                stream.device_index == index,
                f"Expected the device associated with the stream at index {i} (was {stream.device_index}) "
                f"to match the device supplied at that index (expected {index})",
            )
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            chunks[i] = chunk.to(_cuda(index), non_blocking=True)
    return chunks


def scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int = 0, streams: Sequence[torch.cuda.Stream | None] | None = None
) -> Sequence[Tensor]:
    """Copies chunks of the tensor into `out`, whose sizes say how large they are."""
    _check(len(out) > 0, "Expected at least one output tensor to scatter to")
    for i, target in enumerate(out):
        _check_cuda_output(i, target)
    sizes = [target.size(dim) for target in out]
    _check(
        sum(sizes) == tensor.size(dim),
        f"Total size for output tensors along scatter dim {dim} does not match the input tensor: "
        f"expected {tensor.size(dim)}, but got total size {sum(sizes)}",
    )
    for i, (target, chunk) in enumerate(zip(out, tensor.split_with_sizes(sizes, dim))):
        stream = streams[i] if streams and i < len(streams) else None
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            target.copy_(chunk, non_blocking=True)
    return out


def _check_gathered(tensors: Sequence[Tensor], dim: int) -> list[int]:
    """The shape of the gathered tensor."""
    _check(len(tensors) > 0, "Expected at least one tensor to gather from")
    expected = list(tensors[0].shape)
    total = 0
    for i, tensor in enumerate(tensors):
        _check(
            tensor.is_cuda,
            f"Expected all input tensors to be CUDA tensors, but tensor at index {i} has device '{tensor.device}'",
        )
        _check(
            tensor.dim() == len(expected),
            "Expected all input tensors to have the same number of dimensions, but "
            f"tensor at index {i} has {tensor.dim()} dimensions, (expected {len(expected)})",
        )
        expected[dim] = tensor.size(dim)
        _check(
            list(tensor.shape) == expected,
            f"Tensor at index {i} has invalid shape {list(tensor.shape)}, but expected {expected}",
        )
        total += tensor.size(dim)
    expected[dim] = total
    return expected


def gather(tensors: Sequence[Tensor], dim: int, destination: int | None = None) -> Tensor:
    """The tensors joined on the destination: a device, the current one (None) or the CPU (-1)."""
    shape = _check_gathered(tensors, dim)
    if destination is None:
        device = torch.device("cuda", torch.cuda.current_device())
    else:
        device = torch.device("cpu") if destination == -1 else _cuda(destination)
    first = tensors[0]
    layout = torch.contiguous_format
    if first.dim() == 4 and first.is_contiguous(memory_format=torch.channels_last) and not first.is_contiguous():
        layout = torch.channels_last
    result = torch.empty(shape, dtype=first.dtype, device=device, memory_format=layout)
    return _copy_chunks(tensors, result, dim)


def gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    """The tensors joined in `out`."""
    shape = _check_gathered(tensors, dim)
    _check(list(out.shape) == shape, f"Expected out tensor to have shape {shape}, but got {list(out.shape)}")
    return _copy_chunks(tensors, out, dim)


def _copy_chunks(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    chunks = out.split_with_sizes([tensor.size(dim) for tensor in tensors], dim)
    for chunk, tensor in zip(chunks, tensors):
        chunk.copy_(tensor, non_blocking=out.is_cuda)
    return out


def functions() -> dict[str, Callable[..., object]]:
    """The names that torch.nn.parallel.comm calls in torch._C."""
    return {
        "_broadcast": broadcast,
        "_broadcast_out": broadcast_out,
        "_broadcast_coalesced": broadcast_coalesced,
        "_scatter": scatter,
        "_scatter_out": scatter_out,
        "_gather": gather,
        "_gather_out": gather_out,
    }
