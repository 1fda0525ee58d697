# compare: close
# devices: 1
"""Every loss of torch.nn with its gradient, class weights and positive weights on the device, CTC included."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
logits, labels = torch.randn(8, 5).to(device), torch.randint(0, 5, (8,)).to(device)
target = torch.rand(8, 5).to(device)
sign = torch.where(torch.rand(8) > 0.5, 1.0, -1.0).to(device)

losses = {
    "cross entropy": (nn.CrossEntropyLoss(weight=torch.rand(5), label_smoothing=0.1), lambda c, x: c(x, labels)),
    "soft cross entropy": (nn.CrossEntropyLoss(), lambda c, x: c(x, target.softmax(1))),
    "nll": (nn.NLLLoss(weight=torch.rand(5), ignore_index=2), lambda c, x: c(x.log_softmax(1), labels)),
    "bce": (nn.BCELoss(), lambda c, x: c(x.sigmoid(), target)),
    "bce with logits": (nn.BCEWithLogitsLoss(pos_weight=torch.rand(5)), lambda c, x: c(x, target)),
    "mse": (nn.MSELoss(), lambda c, x: c(x, target)), "l1": (nn.L1Loss(), lambda c, x: c(x, target)),
    "huber": (nn.HuberLoss(delta=0.5), lambda c, x: c(x, target)), "smooth l1": (nn.SmoothL1Loss(beta=0.7), lambda c, x: c(x, target)),
    "kl": (nn.KLDivLoss(reduction="batchmean"), lambda c, x: c(x.log_softmax(1), target.softmax(1))),
    "poisson": (nn.PoissonNLLLoss(), lambda c, x: c(x, target)), "soft margin": (nn.SoftMarginLoss(), lambda c, x: c(x[:, 0], sign)),
    "gaussian": (nn.GaussianNLLLoss(), lambda c, x: c(x, target, target + 0.1)),
    "hinge": (nn.HingeEmbeddingLoss(), lambda c, x: c(x[:, 0], sign)), "margin": (nn.MultiMarginLoss(), lambda c, x: c(x, labels)),
    "multilabel": (nn.MultiLabelSoftMarginLoss(), lambda c, x: c(x, (target > 0.5).float())),
    "ranking": (nn.MarginRankingLoss(0.1), lambda c, x: c(x[:, 0], x[:, 1], sign)),
    "cosine": (nn.CosineEmbeddingLoss(), lambda c, x: c(x, target, sign)),
    "triplet": (nn.TripletMarginLoss(), lambda c, x: c(x, target, target.flip(0))),
    "triplet distance": (nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance()), lambda c, x: c(x, target, target.flip(0))),
}
for name, (criterion, compute) in losses.items():
    criterion = criterion.to(device)
    x = logits.clone().requires_grad_()
    loss = compute(criterion, x)
    loss.backward()
    assert loss.device.type == device.type and loss.dim() == 0 and x.grad.device == x.device, name
    print(f"{name} {loss.item():.5f} {x.grad.abs().sum().item():.5f}")

steps = torch.randn(12, 4, 6).to(device).requires_grad_()
texts = torch.randint(1, 6, (4, 3))
for where in (device, torch.device("cpu")):  # lengths may stay on the CPU
    lengths = torch.full((4,), 12, device=where), torch.tensor([3, 2, 3, 1], device=where)
    loss = nn.CTCLoss(zero_infinity=True)(steps.log_softmax(2), texts.to(device), *lengths)
    (grad,) = torch.autograd.grad(loss, steps)
    print(f"ctc {loss.item():.5f} {grad.abs().sum().item():.5f}")
for reduction in ("none", "sum"):
    print(reduction, f"{nn.functional.cross_entropy(logits, labels, reduction=reduction).sum().item():.5f}")
adaptive = nn.AdaptiveLogSoftmaxWithLoss(5, 12, cutoffs=[3, 7])
print(f"adaptive {adaptive.to(device)(logits, (labels * 2)).loss.item():.5f}")
