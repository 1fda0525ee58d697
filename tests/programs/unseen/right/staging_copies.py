"""Evolution strategies for a controller: staging buffers cross devices by copy."""
import torch


class Pendulum:
    """A batch of pendulums integrated on one device."""

    def __init__(self, n, device):
        self.n, self.device = n, device

    def start(self):
        self.theta = torch.full((self.n,), 0.6, device=self.device)
        self.omega = torch.zeros(self.n, device=self.device)

    def push(self, torque, dt=0.05):
        self.omega = self.omega + dt * (9.8 * torch.sin(self.theta) + 8.0 * torque.clamp(-2, 2))
        self.theta = self.theta + dt * self.omega
        return -(self.theta ** 2 + 0.1 * self.omega ** 2 + 0.01 * torque ** 2)


def policy(weights, theta, omega):
    """One two-layer controller per row of weights."""
    w1, b1, w2 = weights.split([8, 4, 4], dim=1)
    obs = torch.stack([theta, omega], 1)
    h = torch.tanh(torch.einsum("nij,nj->ni", w1.view(-1, 4, 2), obs) + b1)
    return (h * w2).sum(1)


class Population:
    def __init__(self, size, dim, sigma, device):
        self.mean = torch.zeros(dim)
        self.sigma = sigma
        self.g = torch.Generator().manual_seed(90)
        self.noise = torch.empty(size, dim)
        self.members = torch.empty(size, dim, device=device)

    def ask(self):
        half = torch.randn(len(self.noise) // 2, self.noise.shape[1], generator=self.g)
        self.noise[: len(half)] = half
        self.noise[len(half):] = -half
        self.members.copy_(self.mean + self.sigma * self.noise)
        return self.members

    def tell(self, fitness, lr):
        rank = fitness.argsort().argsort().float() / (len(fitness) - 1) - 0.5
        self.mean += lr / (len(fitness) * self.sigma) * (self.noise.T @ rank)


def evaluate(env, weights, steps, trace):
    env.start()
    total = torch.zeros(env.n, device=env.device)
    for t in range(steps):
        total += env.push(policy(weights, env.theta, env.omega))
        trace[t, 0] = env.theta[0]
        trace[t, 1:] = torch.stack([env.omega[0], total[0]])
    return total


def main():
    device = torch.device("cuda")
    env = Pendulum(40, device)
    pop = Population(40, 16, 0.3, device)
    trace = torch.zeros(30, 3)
    fitness = torch.empty(40)
    for gen in range(12):
        fitness[:] = evaluate(env, pop.ask(), 30, trace)
        pop.tell(fitness, lr=1.5)
        if gen % 4 == 3:
            print(gen + 1, f"mean {fitness.mean().item():.3f} best {fitness.max().item():.3f}")
    solo = Pendulum(1, device)
    score = evaluate(solo, pop.mean.unsqueeze(0).to(device), 30, trace)
    print("final", round(score.item(), 3), "end angle", round(trace[-1, 0].item(), 4))


main()
