"""Embeds everything, then hands it to NumPy for a PCA."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


@torch.no_grad()
def embed(model, loader, device):
    rows = []
    for batch in loader:
        rows.append(model(batch.to(device)).numpy())  # BUG: host-access culprit=model(batch.to(device))  # RAISES: 1
        # FIX: rows.append(model(batch.to(device)).cpu().numpy())
    return np.concatenate(rows)


def pca(matrix, components):
    centred = matrix - matrix.mean(0)
    _, s, vt = np.linalg.svd(centred, full_matrices=False)
    return centred @ vt[:components].T, s


def explained(spectrum):
    power = torch.as_tensor(spectrum, device="cuda").square()
    return np.asarray(power / power.sum())  # BUG: host-access culprit=power / power.sum()  # RAISES: 2
    # FIX: return np.asarray((power / power.sum()).cpu())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--components", type=int, default=2)
    parser.add_argument("--device", default="cuda:0")
    options = parser.parse_args()
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.Tanh()).to(options.device)
    vectors = embed(encoder, DataLoader(torch.randn(20, 6), batch_size=10), options.device)
    projected, spectrum = pca(vectors, options.components)
    print(projected.shape, [round(float(v), 3) for v in explained(spectrum)[:2]])
