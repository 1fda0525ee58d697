"""A program that finds its batch by trying: what it catches itself is no mistake."""

import torch
from torch import nn


def forward(model, size):
    return model(torch.ones(size, 1024, device="cuda")).sum()


def main():
    model = nn.Linear(1024, 1024).cuda()
    size = 1 << 20
    while True:
        try:
            forward(model, size)
            break
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            size //= 2
    print("fits", size < 1 << 20)


main()
