# finds: nothing
"""Every collective that NCCL has, with values that only the right exchange gives."""
import os
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
device = torch.device("cuda", rank)
torch.cuda.set_device(device)
dist.init_process_group("cpu:gloo,cuda:nccl")
everyone = range(world)
last = world - 1


def full(value, size=2, dtype=torch.float32):
    return torch.full((size,), value, dtype=dtype, device=device)


def same(tensor, *values):
    assert tensor.tolist() == list(values), (rank, tensor.tolist(), values)


value = full(rank + 1.0)
dist.all_reduce(value)
same(value, *[sum(r + 1.0 for r in everyone)] * 2)
for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.int8):
    value = full(1, dtype=dtype)
    dist.all_reduce(value)
    same(value, world, world)
value = full(rank == 0, dtype=torch.bool)
dist.all_reduce(value)
same(value, True, True)
value = full(1j, dtype=torch.complex64)
dist.all_reduce(value)
same(value, world * 1j, world * 1j)
for op, expected in ((dist.ReduceOp.AVG, last / 2), (dist.ReduceOp.MAX, last), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.PRODUCT, 0)):
    value = full(float(rank))
    dist.all_reduce(value, op=op)
    same(value, expected, expected)
value = full(float(rank))
dist.broadcast(value, last)
same(value, last, last)
value = full(1.0)
dist.reduce(value, 0)
same(value, *[float(world) if rank == 0 else 1.0] * 2)
out = [full(-1.0) for _ in everyone]
dist.all_gather(out, full(float(rank)))
assert [t.tolist() for t in out] == [[r, r] for r in everyone]
out = [full(-1.0, r + 1) for r in everyone]
dist.all_gather(out, full(float(rank), rank + 1))
assert [t.tolist() for t in out] == [[r] * (r + 1) for r in everyone]
out = full(-1.0, 2 * world)
dist.all_gather_into_tensor(out, full(float(rank)))
same(out, *[float(r) for r in everyone for _ in range(2)])
out = full(-1.0)
dist.reduce_scatter(out, [full(float(r)) for r in everyone])
same(out, rank * world, rank * world)
dist.reduce_scatter_tensor(out, torch.arange(2.0 * world, device=device))
same(out, 2 * rank * world, (2 * rank + 1) * world)
out = [full(-1.0, 1) for _ in everyone]
dist.all_to_all(out, [full(10.0 * rank + r, 1) for r in everyone])
assert [t.item() for t in out] == [10 * r + rank for r in everyone]
out = full(-1.0, world)
dist.all_to_all_single(out, torch.arange(float(world), device=device) + 10 * rank)
same(out, *[10.0 * r + rank for r in everyone])
out = [full(-1.0, 1) for _ in everyone] if rank == 0 else None
dist.gather(full(float(rank), 1), out)
assert rank != 0 or [t.item() for t in out] == list(everyone)
out = full(-1.0, 1)
dist.scatter(out, [full(float(r), 1) for r in everyone] if rank == 0 else None)
same(out, rank)
if rank == 0:
    dist.send(full(7.0), 1)
elif rank == 1:
    out = full(-1.0)
    dist.recv(out, 0)
    same(out, 7, 7)
sent, got = full(float(rank)), full(-1.0)
operations = [dist.P2POp(dist.isend, sent, (rank + 1) % world), dist.P2POp(dist.irecv, got, (rank - 1) % world)]
for work in dist.batch_isend_irecv(operations):
    work.wait()
same(got, (rank - 1) % world, (rank - 1) % world)
work = dist.all_reduce(full(1.0), async_op=True)
work.wait()
assert work.is_completed() and work.get_future().value()[0].tolist() == [world, world]
dist.barrier()
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": r} for r in everyone]
only = dist.new_group([0])
if rank == 0:
    value = full(5.0)
    dist.all_reduce(value, group=only)
    same(value, 5, 5)
host = torch.ones(2)
dist.all_reduce(host)
same(host, world, world)
gloo = dist.new_group(backend="gloo")
value = full(1.0)
dist.all_reduce(value, group=gloo)
same(value, world, world)
dist.destroy_process_group()
