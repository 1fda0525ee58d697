# Full-covariance Gaussian mixture by expectation-maximization, then a small net that imitates its posteriors.
import math
import numpy as np
import torch

torch.manual_seed(40)
np.random.seed(40)
device = 'cuda' if torch.cuda.is_available() else 'cpu'
K, D = 3, 2


def log_gauss(x, mu, cov):
    chol = torch.linalg.cholesky(cov)
    diff = x[:, None] - mu[None]
    y = torch.linalg.solve_triangular(chol, diff.permute(1, 2, 0), upper=False)
    logdet = chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return -0.5 * y.square().sum(1).t() - logdet - 0.5 * D * math.log(2 * math.pi)


def e_step(x, pi, mu, cov):
    joint = log_gauss(x, mu, cov) + pi.log()  # RAISES: 1
    norm = joint.logsumexp(1, keepdim=True)
    return (joint - norm).exp(), norm.mean()


def m_step(x, r):
    n = r.sum(0)
    mu = (r.t() @ x) / n[:, None]
    diff = x[:, None] - mu[None]
    cov = torch.einsum('nk,nki,nkj->kij', r, diff, diff) / n[:, None, None]
    cov = cov + 1e-3 * torch.eye(D)  # BUG 2: any culprit=torch.eye(D) # RAISES: 2
    # FIX: cov = cov + 1e-3 * torch.eye(D, device=x.device)
    return n / len(x), mu, cov


centers = np.array([[0., 0.], [3., 1.], [-1., 3.]])
points = np.concatenate([c + 0.5 * np.random.randn(30, D) for c in centers]).astype('float32')
x = torch.from_numpy(points).to(device)

pi = torch.full((K,), 1 / K)  # BUG 1: any culprit=pi
# FIX: pi = torch.full((K,), 1 / K, device=device)
mu = x[::30].clone()
cov = torch.eye(D, device=device).repeat(K, 1, 1)
history = []
for i in range(8):
    r, ll = e_step(x, pi, mu, cov)
    pi, mu, cov = m_step(x, r)
    history.append(ll.item())
print('log likelihood', ['%.3f' % v for v in history])
order = mu[:, 0].argsort()
print('means', [[round(v, 2) for v in row] for row in mu[order].tolist()])

# the imitation
student = torch.nn.Sequential(torch.nn.Linear(D, 16), torch.nn.ReLU(), torch.nn.Linear(16, K)).to(device)
opt = torch.optim.Adam(student.parameters(), lr=0.02)
kl = torch.nn.KLDivLoss(reduction='batchmean')
posteriors = r.detach()
for epoch in range(5):
    perm = np.random.permutation(len(points))
    total = 0.
    for idx in np.array_split(perm, 3):
        xb = torch.tensor(points[idx])  # BUG: any culprit=xb
        # FIX: xb = torch.tensor(points[idx], device=device)
        out = student(xb).log_softmax(1)  # RAISES: 3
        loss = kl(out, posteriors[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print('epoch', epoch, 'kl %.4f' % (total / 3))

with torch.no_grad():
    agree = student(x).argmax(1).eq(r.argmax(1)).float().mean()
print('agreement %.2f' % agree)
hist, _ = np.histogram(student(x).argmax(1).numpy(), bins=K)  # BUG: any culprit=student(x).argmax(1) # RAISES: 4
# FIX: hist, _ = np.histogram(student(x).argmax(1).cpu().numpy(), bins=K)
print('sizes', sorted(hist.tolist()))
