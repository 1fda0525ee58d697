import io
import torch
from torch import nn


def build(device):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).to(device)
    return m, torch.optim.AdamW(m.parameters(), lr=1e-2)


def step(m, opt, x):
    opt.zero_grad()
    loss = m(x).square().mean()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    first = torch.device("cuda:0")
    other = torch.device("cuda:1")
    x = torch.linspace(-1, 1, 12).view(4, 3)
    m, opt = build(first)
    for _ in range(3):
        step(m, opt, x.to(first))
    buf = io.BytesIO()
    torch.save({"m": m.state_dict(), "o": opt.state_dict(), "centroid": m[0].weight.detach().mean(0), "it": 3}, buf)

    buf.seek(0)
    ck = torch.load(buf, map_location=other)
    m2, opt2 = build(other)
    m2.load_state_dict(ck["m"])
    opt2.load_state_dict(ck["o"])
    d2 = (m2[0].weight - ck["centroid"]).norm()
    a = step(m2, opt2, x.to(other))

    buf.seek(0)
    ck = torch.load(buf, map_location="cpu")
    m3, opt3 = build(first)
    m3.load_state_dict(ck["m"])          # copies to the module's device
    opt3.load_state_dict(ck["o"])        # casts to the parameters' device
    d3 = (m3[0].weight - ck["centroid"].to(first)).norm()
    b = step(m3, opt3, x.to(first))

    buf.seek(0)
    ck = torch.load(buf, map_location={"cuda:0": "cuda:1"})
    print("%.5f %.5f %.4f %.4f" % (a, b, d2.item(), d3.item()), ck["centroid"].device)


main()
