# Evolution strategies: perturbations made on the host by seed, evaluated on the devices in turn
import torch


def noise(seed, n):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def fitness(theta):
    target = torch.linspace(-1, 1, theta.numel(), device=theta.device)
    return -(theta - target).square().sum()


def main():
    devices = [torch.device("cuda", i) for i in range(torch.cuda.device_count())] or [torch.device("cpu")]
    theta = torch.zeros(6)
    sigma, lr = 0.1, 0.05
    for gen in range(10):
        scores, seeds = [], []
        for i in range(8):
            seed = gen * 100 + i
            dev = devices[i % len(devices)]
            pert = theta.to(dev) + sigma * noise(seed, 6).to(dev)
            scores.append(fitness(pert).item())          # a number, no device
            seeds.append(seed)
        s = torch.tensor(scores)
        s = (s - s.mean()) / s.std()
        grad = torch.stack([noise(k, 6) for k in seeds]).T @ s / (len(seeds) * sigma)
        theta = theta + lr * grad
    print("%.4f" % fitness(theta).item(), "%.4f" % fitness(theta.to(devices[-1])).item())


main()
