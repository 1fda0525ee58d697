"""Pinned memory, a copy stream, events: done in the right order."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def main():
    assert torch.cuda.is_available()
    dev = torch.device("cuda", 0)
    x = torch.sin(torch.arange(64.0)).view(16, 4)
    y = x.sum(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=4, pin_memory=True)
    model = torch.nn.Linear(4, 1)
    torch.nn.init.constant_(model.weight, 0.5)
    torch.nn.init.zeros_(model.bias)
    model.to(dev)
    copy_stream = torch.cuda.Stream(dev)
    total = torch.zeros((), device=dev)
    for bx, by in loader:
        with torch.cuda.stream(copy_stream):
            gx = bx.to(dev, non_blocking=True)
            gy = by.to(dev, non_blocking=True)
        torch.cuda.current_stream(dev).wait_stream(copy_stream)
        gx.record_stream(torch.cuda.current_stream(dev))
        gy.record_stream(torch.cuda.current_stream(dev))
        total += (model(gx).squeeze(1) - gy).abs().sum().detach()

    # device to host without blocking, then wait before reading
    out = torch.empty(16, pin_memory=True)
    done = torch.cuda.Event()
    with torch.no_grad():
        out.copy_(model(x.to(dev)).squeeze(1), non_blocking=True)
    done.record()
    done.synchronize()
    print(f"{total.item():.4f} {out.sum().item():.4f}")


main()
