# Indices on the host into tensors on the device are fine
import torch


def topk_rows(table, scores, k):
    order = scores.argsort(descending=True)[:k]
    return table[order]


def main():
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    table = torch.arange(60.0, device=dev).view(12, 5)
    scores = torch.cos(torch.arange(12.0))           # cpu
    best = topk_rows(table, scores, 4)
    mask = torch.tensor([i % 3 == 0 for i in range(12)])
    picked = table[mask]
    table[mask] = 0.0
    table[torch.tensor([1, 2])] += 1
    rows, cols = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    block = table[rows, cols]
    table[[4, 5], [0, 1]] = torch.tensor(9.0)
    shuffled = table[torch.arange(11, -1, -1)]
    chunks = [table[idx] for idx in torch.arange(12).split(5)]
    assert best.device.type == picked.device.type == block.device.type == dev
    print(best.sum().item(), picked.sum().item(), block.sum().item(), shuffled[0].sum().item(), len(chunks))
    print(table.sum().item())


if __name__ == "__main__":
    main()
