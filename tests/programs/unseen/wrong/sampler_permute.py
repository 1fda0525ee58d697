"""Bootstrap with reproducible permutations on the device, masked-autoencoder style shuffling."""
import torch
from torch import nn


class PatchMasker(nn.Module):
    def __init__(self, ratio, device, seed=0):
        super().__init__()
        self.ratio = ratio
        self.gen = torch.Generator().manual_seed(seed)  # BUG: any culprit=self.gen
        # FIX: self.gen = torch.Generator(device=device).manual_seed(seed)

    def forward(self, x):
        b, n, d = x.shape
        keep = int(n * (1 - self.ratio))
        noise = torch.rand(b, n, device=x.device, generator=self.gen)  # RAISES: 1
        shuffle = noise.argsort(1)
        restore = shuffle.argsort(1)
        kept = x.gather(1, shuffle[:, :keep, None].expand(-1, -1, d))
        mask = torch.ones(b, n)  # BUG: any culprit=mask
        # FIX: mask = torch.ones(b, n, device=x.device)
        mask[:, :keep] = 0
        return kept, mask.gather(1, restore), restore  # RAISES: 2


class MAE(nn.Module):
    def __init__(self, device, d=6, h=12):
        super().__init__()
        self.masker = PatchMasker(0.5, device)
        self.enc = nn.Linear(d, h)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, h))
        self.dec = nn.Linear(h, d)

    def forward(self, x):
        kept, mask, restore = self.masker(x)
        z = self.enc(kept).relu()
        fill = self.mask_token.expand(len(x), restore.size(1) - z.size(1), -1)
        full = torch.cat([z, fill], 1).gather(1, restore.unsqueeze(-1).expand(-1, -1, z.size(-1)))
        err = (self.dec(full) - x).square().mean(-1)
        return (err * mask).sum() / mask.sum(), mask


def main():
    torch.manual_seed(17)
    dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = MAE(dev).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    patches = torch.ones(3, 8, 6).to(dev)
    for _ in range(8):
        loss, mask = model(patches)
        opt.zero_grad()
        loss.backward()
        opt.step()
    visible = patches.cpu()[(mask == 0).nonzero(as_tuple=True)]  # BUG: any culprit=mask # RAISES: 3
    # FIX: visible = patches.cpu()[(mask.cpu() == 0).nonzero(as_tuple=True)]
    print("%.4f" % loss.item(), tuple(visible.shape))


main()
