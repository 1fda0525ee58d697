# k-means with k-means++ style seeding, all on one device
import torch


def pairwise(points, centers):
    return torch.cdist(points, centers).pow(2)  # RAISES: 1


def farthest_seed(points, k):
    chosen = [points[0]]
    for _ in range(k - 1):
        c = torch.stack(chosen)
        d = pairwise(points, c).min(dim=1)[0]
        chosen.append(points[d.argmax()])
    return torch.stack(chosen)


def kmeans(points, k, iters=10, init=None):
    n, dim = points.shape
    centers = farthest_seed(points, k) if init is None else init
    for _ in range(iters):
        assign = pairwise(points, centers).argmin(dim=1)
        sums = torch.zeros(k, dim, device=points.device)
        sums.index_add_(0, assign, points)
        counts = torch.zeros(k)  # BUG 2: any culprit=counts
        # FIX: counts = torch.zeros(k, device=points.device)
        counts.scatter_add_(0, assign, torch.ones(n, device=points.device))  # RAISES: 2
        centers = sums / counts.clamp(min=1).unsqueeze(1)
    return assign, centers


def silhouette_like(points, assign, centers):
    own = (points - centers[assign]).norm(dim=1)
    d = torch.cdist(points, centers)
    d[torch.arange(len(points)), assign] = float("inf")
    other = d.min(dim=1).values
    return ((other - own) / torch.maximum(own, other)).mean()


def inertia_histogram(points, assign, centers, bins=4):
    own = (points - centers[assign]).norm(dim=1)
    edges = torch.linspace(0, 2, bins)  # BUG 3: any culprit=edges
    # FIX: edges = torch.linspace(0, 2, bins, device=points.device)
    slot = torch.bucketize(own, edges)  # RAISES: 3
    return torch.bincount(slot, minlength=bins + 1).tolist()


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    base = torch.tensor([[0.0, 0.0], [4.0, 4.0], [0.0, 5.0]])  # ALSO: 1
    jitter = torch.sin(torch.arange(60.0)).view(30, 2) * 0.7
    points = (base.repeat(10, 1) + jitter).to(device)

    assign, centers = kmeans(points, 3)
    print(sorted(torch.bincount(assign).tolist()))
    print(round(silhouette_like(points, assign, centers).item(), 4))

    # warm start from the known prototypes
    warm, warm_centers = kmeans(points, 3, iters=3, init=base)  # BUG 1: any culprit=base
    # FIX: warm, warm_centers = kmeans(points, 3, iters=3, init=base.to(device))
    print(inertia_histogram(points, warm, warm_centers))


main()
