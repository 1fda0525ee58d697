import torch
from torch import nn
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal, Normal, kl_divergence


class GMM(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(k))
        self.mu = nn.Parameter(torch.linspace(-2, 2, k))
        self.log_sigma = nn.Parameter(torch.zeros(k))

    def forward(self):
        return MixtureSameFamily(Categorical(logits=self.logits), Normal(self.mu, self.log_sigma.exp()))


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
gmm = GMM(3).to(device)
opt = torch.optim.Adam(gmm.parameters(), lr=0.05)
x = torch.cat([torch.linspace(-3, -2, 10), torch.linspace(1, 2, 20)]).to(device)
for _ in range(30):
    loss = -gmm().log_prob(x).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

prior = Normal(torch.tensor(0.0), torch.tensor(1.0))           # 0-d parameters on the host
std_normal = Normal(torch.zeros(3, device=device), 1.0)
kl = kl_divergence(Normal(gmm.mu, gmm.log_sigma.exp()), std_normal).sum()
mvn = MultivariateNormal(torch.zeros(2, device=device), covariance_matrix=torch.eye(2, device=device) * 2)
lp = mvn.log_prob(torch.ones(4, 2, device=device))
host = prior.log_prob(gmm.mu.detach().cpu()).sum()
print("%.4f %.4f %.4f %.4f" % (loss.item(), kl.item(), lp.mean().item(), host.item()), gmm().sample((5,)).shape)
