"""DataParallel: what forward makes is made where its input is."""
import torch
from torch import nn


class Sequence(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Embedding(12, width)
        self.position = nn.Embedding(10, width)
        self.register_buffer("bias", torch.zeros(width))
        self.out = nn.Linear(width, 3)

    def forward(self, tokens):
        positions = torch.arange(tokens.size(1), device=tokens.device)
        h = self.embed(tokens) + self.position(positions) + self.bias
        mask = torch.ones(tokens.shape, dtype=torch.bool).to(tokens.device)
        extra = torch.zeros(h.size(-1)).cuda()  # the replica's own device is current
        return self.out((h + extra).masked_fill(~mask[..., None], 0.0).mean(1))


torch.manual_seed(0)
model = nn.DataParallel(Sequence()).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens, labels = torch.randint(0, 12, (9, 6)), torch.arange(9) % 3
for _ in range(3):
    output = model(tokens)  # scattered from the host
    loss = nn.functional.cross_entropy(output, labels.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(output.device, len(model.device_ids), "%.3f" % loss.item())
