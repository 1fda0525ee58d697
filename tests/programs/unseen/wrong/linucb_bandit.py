"""LinUCB against Thompson sampling on a synthetic contextual bandit. All math in torch, nothing learned by gradients."""
import torch

DIM, ARMS, ROUNDS = 4, 3, 40
opts = {"device": torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu"), "dtype": torch.float64}
torch.manual_seed(0)


class World:
    def __init__(self):
        self.theta = torch.sin(torch.arange(ARMS * DIM * 1.0)).view(ARMS, DIM).to(**opts)

    def context(self, t):
        base = torch.arange(DIM * 1.0) * (1 + t % 7)
        return torch.cos(base + 0.3 * t).to(**opts)

    def reward(self, x, arm, t):
        return self.theta[arm] @ x + 0.05 * ((t * 37) % 11 - 5) / 5

    def best(self, x):
        return (self.theta @ x).max()


class LinUCB:
    name = "linucb"

    def __init__(self, alpha=0.6):
        self.alpha = alpha
        self.inverse = [torch.eye(DIM, dtype=opts["dtype"]) for _ in range(ARMS)]  # BUG: any culprit=inv
        # FIX: self.inverse = [torch.eye(DIM, **opts) for _ in range(ARMS)]
        self.b = [torch.zeros(DIM, **opts) for _ in range(ARMS)]

    def choose(self, x, t):
        scores = []
        for inv, b in zip(self.inverse, self.b):
            theta = inv @ b  # RAISES: 1
            scores.append(theta @ x + self.alpha * (x @ inv @ x).sqrt())
        return int(torch.stack(scores).argmax())

    def learn(self, x, arm, r):
        inv = self.inverse[arm]
        u = inv @ x
        self.inverse[arm] = inv - torch.outer(u, u) / (1 + x @ u)
        self.b[arm] = self.b[arm] + r * x


class Thompson:
    name = "thompson"

    def __init__(self, scale=0.3):
        self.scale = scale
        self.precision = torch.eye(DIM, **opts).repeat(ARMS, 1, 1)
        self.b = torch.zeros(ARMS, DIM, **opts)

    def choose(self, x, t):
        chol = torch.linalg.cholesky(self.precision)
        mean = torch.cholesky_solve(self.b.unsqueeze(-1), chol).squeeze(-1)
        noise = torch.sin(torch.arange(ARMS * DIM, dtype=opts["dtype"]) * (t + 1)).view(ARMS, DIM, 1)  # BUG: any culprit=noise
        # FIX: noise = torch.sin(torch.arange(ARMS * DIM, **opts) * (t + 1)).view(ARMS, DIM, 1)
        draw = torch.linalg.solve_triangular(chol.mT, noise, upper=True).squeeze(-1)  # RAISES: 2
        return int(((mean + self.scale * draw) @ x).argmax())

    def learn(self, x, arm, r):
        self.precision[arm] += torch.outer(x, x)
        self.b[arm] += r * x


def play(agent, world):
    regret = torch.zeros(ROUNDS, dtype=opts["dtype"])
    pulls = torch.zeros(ARMS, dtype=torch.long)
    for t in range(ROUNDS):
        x = world.context(t)
        arm = agent.choose(x, t)
        r = world.reward(x, arm, t)
        agent.learn(x, arm, r)
        regret[t] = world.best(x) - world.theta[arm] @ x
        pulls[arm] += 1
    return regret.cumsum(0), pulls


def main():
    world = World()
    curves = {}
    for agent in (LinUCB(), Thompson()):
        curve, pulls = play(agent, world)
        curves[agent.name] = curve
        print(f"{agent.name:9} regret {curve[-1].item():.4f} pulls {pulls.tolist()}")
    discount = 0.95 ** torch.arange(ROUNDS, **opts)  # BUG: any culprit=discount
    # FIX: discount = 0.95 ** torch.arange(ROUNDS, dtype=opts["dtype"])
    for name, curve in curves.items():
        print(name, "discounted %.4f" % torch.dot(curve, discount).item())  # RAISES: 3  # ALSO: 3


main()
