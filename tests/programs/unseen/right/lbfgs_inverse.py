# Recover a blur kernel; everything shaped by *_like and new_*
import torch
import torch.nn.functional as F


def problem(device):
    img = torch.sin(torch.arange(100.0) / 4).view(1, 1, 10, 10).to(device)
    truth = img.new_tensor([[0.0, 0.2, 0.0], [0.2, 0.2, 0.2], [0.0, 0.2, 0.0]])
    return img, truth, F.conv2d(img, truth[None, None], padding=1)


def tv(k):
    return (k[1:] - k[:-1]).abs().sum() + (k[:, 1:] - k[:, :-1]).abs().sum()


def recover(img, seen, lam=torch.tensor(1e-4)):
    k = img.new_full((3, 3), 1 / 9).requires_grad_()
    opt = torch.optim.LBFGS([k], max_iter=40)

    def closure():
        opt.zero_grad()
        pred = F.conv2d(img, k[None, None], padding=1)
        loss = (pred - seen).square().mean() + lam * tv(k)
        loss.backward()
        return loss

    opt.step(closure)
    return k.detach()


for name in ["cuda", "cpu"]:
    if name == "cuda" and not torch.cuda.is_available():
        continue
    img, truth, seen = problem(name)
    k = recover(img, seen)
    print((k - truth).abs().max().item() < 0.05, "%.2f" % k.sum().item(), torch.zeros_like(k).device.type)
