"""A small network, and what the tests of PyTorch files have in common. Exit 77 without PyTorch."""

import sys

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed")
    sys.exit(77)

from checks import run

K, P, C = 5, 8, 2  # classes, features, the class that goes
KEEP = [0, 1, 3, 4]
torch.manual_seed(1)


class Net(torch.nn.Module):
    def __init__(self, classes=K, aux=False):
        super().__init__()
        self.body = torch.nn.Linear(6, P)
        self.norm = torch.nn.BatchNorm1d(P)
        self.fc = torch.nn.Linear(P, classes)
        self.fc.weight.data += 0.5  # rows that sum to zero would be centred again
        if aux:
            self.AuxLogits = torch.nn.ModuleDict({"fc": torch.nn.Linear(6, classes)})

    def features(self, x):
        return torch.relu(self.norm(self.body(x)))

    def forward(self, x):
        return self.fc(self.features(x))


def forget(path, out, *options):
    run("forget", path, "--class", C, "-o", out, *options)
    return torch.load(out)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)


def others_are_kept(old, new, head=("fc.weight", "fc.bias")):
    assert list(old) == list(new)
    for name in old:
        if name not in head:
            assert same(old[name], new[name]), name


def as_numpy(tensor):
    return tensor.float().numpy() if tensor.dtype == torch.bfloat16 else tensor.numpy()
