"""No modules at all: parameters are a dict of tensors, functions are pure, updates make new trees."""
from functools import partial

import torch
from torch.func import grad_and_value, jacrev, vmap
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map


def init(sizes):
    return {
        f"layer{i}": {"w": torch.sin(torch.arange(a * b * 1.0)).view(a, b) * 0.4, "b": torch.zeros(b)}
        for i, (a, b) in enumerate(zip(sizes, sizes[1:]))
    }


def apply(params, x):
    layers = list(params.values())
    for layer in layers[:-1]:
        x = torch.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def mse(params, x, y, scale):
    return ((apply(params, x) - y) * scale).square().mean()


def device_put(tree, device):
    return tree_map(lambda t: t.to(device), tree)


def update(params, grads, moments, lr):
    moments = tree_map(lambda m, g: 0.9 * m + g, moments, grads)
    return tree_map(lambda p, m: p - lr * m, params, moments), moments


def zeros(tree):
    return tree_map(torch.zeros_like, tree)


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    params = device_put(init([3, 8, 1]), device)
    moments = zeros(params)
    x = torch.cos(torch.arange(60.0) * 0.5).view(20, 3)
    y = x.prod(1, keepdim=True)
    scale = torch.tensor(1.5)  # of no dimension: may stay on the host
    lr = torch.tensor(0.05)
    step = grad_and_value(partial(mse, scale=scale))
    for i in range(6):
        grads, loss = step(params, x.to(device), y.to(device))
        params, moments = update(params, grads, moments, lr)
        print(i, f"{loss.item():.5f}")
    jacobian = vmap(jacrev(partial(apply, params)))(x[:4].to(device))
    print(tuple(jacobian.shape), f"{jacobian.norm().item():.4f}")
    host = device_put(params, "cpu")
    outside = apply(host, x) - apply(params, x.to(device)).cpu()
    print(outside.abs().max().item() < 1e-5)
    leaves, spec = tree_flatten(params)
    flat = torch.cat([leaf.flatten() for leaf in leaves])
    sizes = torch.tensor([leaf.numel() for leaf in leaves])  # split by numbers
    again = [piece.view_as(leaf) for piece, leaf in zip(flat.split(sizes.tolist()), leaves)]
    print(all(torch.equal(a, b) for a, b in zip(again, tree_leaves(params))), spec.num_leaves)
    ends = sizes.cumsum(0) - 1
    print([round(v, 4) for v in flat[ends].tolist()])  # indices of the host
    picked = flat.take(ends.to(flat.device)).sum() / len(ends)
    print(f"{picked:.4f} {(picked * scale).item():.4f}")


main()
