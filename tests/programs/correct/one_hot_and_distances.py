"""F.one_hot, cdist, k-means and nearest neighbours, all on the device."""
import torch
import torch.nn.functional as F

torch.manual_seed(0)
device = torch.device("cuda:0")
points = torch.cat([torch.randn(20, 2) + 4 * i for i in range(3)]).to(device)
centres = points[torch.tensor([0, 25, 50])].clone()
for _ in range(5):
    nearest = torch.cdist(points, centres).argmin(1)
    membership = F.one_hot(nearest, 3).float()
    centres = (membership.t() @ points) / membership.sum(0).clamp(min=1)[:, None]
print(torch.bincount(nearest, minlength=3).tolist(), centres.device)
similarity = F.cosine_similarity(points[:, None], centres[None], dim=-1)
print(similarity.shape, similarity.topk(1).indices.unique().numel() >= 1)
targets = F.one_hot(torch.arange(3), 4).to(device)
print(targets.sum().item(), F.one_hot(nearest.cpu()).shape[0] == len(points))
