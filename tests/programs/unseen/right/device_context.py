import torch


def ring_pass(parts):
    """Every device works on its part, then passes it on."""
    n = len(parts)
    for hop in range(n):
        nxt = []
        for i, p in enumerate(parts):
            with torch.cuda.device(i):
                bias = torch.full((3,), float(hop), device="cuda")   # current device
                assert bias.device.index == i
                nxt.append(p.cuda() * 2 + bias)
        parts = [nxt[(i - 1) % n].to(f"cuda:{i}") for i in range(n)]
    return parts


def main():
    count = torch.cuda.device_count()
    parts = [torch.arange(3.0, device=f"cuda:{i}") + i for i in range(count)]
    parts = ring_pass(parts)
    with torch.cuda.device(count - 1):
        here = torch.cuda.current_device()
        acc = torch.zeros(3, device="cuda")
        for p in parts:
            acc += p.to(acc.device)
    torch.cuda.set_device(1)
    x = torch.ones(2).cuda()
    torch.cuda.set_device(0)
    y = x.cuda(0) + torch.ones(2, device="cuda")
    print(here, acc.tolist(), x.device.index, y.sum().item())


main()
