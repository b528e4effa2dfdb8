"""peer_train.py train|infer NETWORK SAMPLES BATCH: PyTorch's rate, as train_bench gives ours."""
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
kind, name, samples, batch = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])


def same_padding(size):
    """TensorFlow's padding of a 3 x 3 window at stride 2."""
    total = max(((size + 1) // 2 - 1) * 2 + 3 - size, 0)
    return total // 2, total - total // 2


class Block(nn.Module):
    def __init__(self, i, o):
        super().__init__()

        def norm():
            return nn.BatchNorm2d(o, eps=1e-3, momentum=0.01)

        self.branch = nn.Sequential(
            nn.Conv2d(i, o, 3, 2, bias=False),
            norm(),
            nn.ReLU(),
            nn.Conv2d(o, o, 3, padding=1, bias=False),
            norm(),
            nn.ReLU(),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(i, o, 3, 2, bias=False), norm())

    def forward(self, x):
        x = nn.functional.pad(x, (*same_padding(x.shape[3]), *same_padding(x.shape[2])))
        return torch.relu(self.branch(x) + self.shortcut(x))


def network():
    if name == "mlp":
        return (
            nn.Sequential(nn.Flatten(), nn.Linear(784, 50), nn.ReLU(), nn.Linear(50, 10)),
            (1, 28, 28),
            10,
        )
    if name == "residual":
        blocks = [Block(i, o) for i, o in ((8, 16), (16, 32), (32, 64), (64, 128), (128, 256))]
        return (
            nn.Sequential(
                nn.Conv2d(1, 8, 5, padding=2, bias=False),
                nn.BatchNorm2d(8, eps=1e-3, momentum=0.01),
                nn.ReLU(),
                *blocks,
                nn.AdaptiveMaxPool2d(1),
                nn.Flatten(),
                nn.Linear(256, 40),
            ),
            (1, 112, 92),
            40,
        )
    p = int(name[3:])
    return (
        nn.Sequential(
            nn.Conv2d(3, 16, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1152, p),
            nn.ReLU(),
            nn.Linear(p, 10),
        ),
        (3, 32, 32),
        10,
    )


def rate(once, windows=5, seconds=0.2):
    once()
    rates = []
    for _ in range(windows):
        begin, done = time.thread_time(), 0
        while time.thread_time() < begin + seconds:
            once()
            done += samples
        rates.append(done / (time.thread_time() - begin))
    return sorted(rates)[windows // 2]


model, shape, classes = network()
images, labels = torch.rand(samples, *shape), torch.randint(0, classes, (samples,))

if kind == "train":
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-7)
    loss = nn.CrossEntropyLoss()

    def epoch():
        order = torch.randperm(samples)
        for first in range(0, samples, batch):
            chosen = order[first : first + batch]
            optimizer.zero_grad(set_to_none=True)
            loss(model(images[chosen]), labels[chosen]).backward()
            optimizer.step()

    print(rate(epoch))
else:
    model.eval()
    best = 0.0
    with torch.inference_mode():
        for last in (False, True):
            layout = torch.channels_last if last else torch.contiguous_format
            model = model.to(memory_format=layout)
            for size in (8, 32, 100, 256, 1000):
                if size > samples:
                    continue

                def epoch():
                    for first in range(0, samples, size):
                        model(images[first : first + size].contiguous(memory_format=layout))

                best = max(best, rate(epoch, windows=3))
    print(best)
