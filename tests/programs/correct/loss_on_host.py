"""Everything after the logits happens on the CPU on purpose; gradients still reach the GPU."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Linear(5, 12).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
class_weight = torch.linspace(0.5, 1.5, 3)
x, targets = torch.randn(4, 4, 5), torch.randint(0, 3, (4, 4))
for step in range(3):
    logits = model(x.to("cuda")).view(4, 4, 4, 3).mean(2)
    host = logits.float().cpu()
    loss = F.cross_entropy(host.flatten(0, 1), targets.flatten(), weight=class_weight)
    ctc = F.ctc_loss(F.log_softmax(host, -1).transpose(0, 1), torch.ones(4, 2, dtype=torch.long), torch.full((4,), 4), torch.full((4,), 2))
    optimizer.zero_grad()
    (loss + 0.1 * ctc).backward()
    optimizer.step()
    print(f"{loss.item():.4f} {ctc.item():.3f}", model.weight.grad.device, loss.device)
