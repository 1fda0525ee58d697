"""Two side streams, joined by events before the result is read."""
import torch


def work(x, n):
    for _ in range(n):
        x = torch.tanh(x @ x.t() / x.shape[0])
    return x


def main():
    dev = torch.device("cuda:0")
    main_stream = torch.cuda.current_stream(dev)
    s1, s2 = torch.cuda.Stream(dev), torch.cuda.Stream(dev)
    a = torch.linspace(-1, 1, 16, device=dev).view(4, 4)
    b = a.flip(0)
    ready = torch.cuda.Event()
    ready.record(main_stream)
    done = []
    outs = []
    for s, t, n in ((s1, a, 2), (s2, b, 3)):
        s.wait_event(ready)
        with torch.cuda.stream(s):
            outs.append(work(t, n))
            t.record_stream(s)
            e = torch.cuda.Event()
            e.record(s)
            done.append(e)
    for e, o in zip(done, outs):
        main_stream.wait_event(e)
        o.record_stream(main_stream)
    total = outs[0] + outs[1]
    other = torch.cuda.Stream(torch.device("cuda:1"))
    with torch.cuda.stream(other):
        moved = total.to("cuda:1")
    torch.cuda.synchronize("cuda:1")
    print("%.5f %.5f" % (total.sum().item(), moved.sum().item()))


main()
