# compare: exact
# devices: 2
"""Threads: inference on two devices at once, training in two threads, the current device is a thread's own."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

count = torch.cuda.device_count()
devices = [torch.device("cuda", i) for i in range(count)] or [torch.device("cpu"), torch.device("cpu")]
torch.manual_seed(0)
master = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
batches = [torch.randn(8, 16) for _ in range(12)]

requests, results = queue.Queue(), {}


def serve(device):
    if device.type == "cuda":
        torch.cuda.set_device(device)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    model.load_state_dict(master.state_dict())
    model.to(device)
    while (item := requests.get()) is not None:
        index, batch = item
        with torch.inference_mode():
            out = model(batch.to(device))
            assert out.device == device
            if device.type == "cuda":
                assert torch.cuda.current_device() == device.index and torch.zeros(1, device="cuda").device == device
            results[index] = out.cpu()


workers = [threading.Thread(target=serve, args=(d,)) for d in devices]
for worker in workers:
    worker.start()
for item in enumerate(batches):
    requests.put(item)
for _ in workers:
    requests.put(None)
for worker in workers:
    worker.join()
if count:
    assert torch.cuda.current_device() == 0
print("answered", len(results), f"{sum(results[i].double().sum().item() for i in range(12)):.5f}")


def train(seed_and_device):
    seed, device = seed_and_device
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(16, 1, generator=generator).to(device).requires_grad_()
    x = torch.randn(32, 16, generator=generator).to(device)
    for _ in range(20):
        loss = (x @ weight - 1).square().mean()
        (grad,) = torch.autograd.grad(loss, weight)
        weight = (weight - 0.05 * grad).detach().requires_grad_()
    return round(loss.item(), 6)


with ThreadPoolExecutor(4) as pool:
    print("trained", list(pool.map(train, [(s, devices[s % len(devices)]) for s in range(6)])))


def mistake():
    try:
        torch.ones(1, device=devices[0]) @ torch.ones(2, device=devices[0])
    except RuntimeError as error:
        caught.append("size" in str(error) or "mat" in str(error))


caught = []
thread = threading.Thread(target=mistake)
thread.start()
thread.join()
print("an error stays in its thread", caught)
