"""Runs the blocks of docs/from-pytorch.md and of README.md on small networks: a class forgotten in
a state dict and loaded back, an export that is understood, and an audit of what was exported.

from_pytorch_test.py OUBLI: exit 77 (skipped) where PyTorch is not installed.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    sys.exit(77)
import numpy as np

program = os.path.abspath(sys.argv[1])
source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def blocks_of(page):
    """(language, text) of every block of a page, in order."""
    with open(os.path.join(source, page), encoding="utf-8") as document:
        return re.findall(r"```(python|sh)\n(.*?)```", document.read(), re.S)


readme, page = blocks_of("README.md"), blocks_of("docs/from-pytorch.md")
assert [kind for kind, _ in readme] == ["python", "sh", "python"], readme
assert [kind for kind, _ in page] == ["python", "sh", "python"] + 3 * ["python"] + ["sh"], page

torch.manual_seed(1)
torch.set_num_threads(1)
CLASSES, FORGOTTEN, SAMPLES = 5, 3, 200
y = torch.arange(SAMPLES) % CLASSES
x = torch.nn.functional.one_hot(y, CLASSES).float() @ torch.randn(CLASSES, 8) + 0.3 * torch.randn(
    SAMPLES, 8
)
loader = torch.utils.data.DataLoader(
    torch.utils.data.TensorDataset(x, y), batch_size=64, shuffle=False
)


def fit(model, inputs, labels):
    """The model, trained until it is right: the guard refuses labels that it does not mean."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(60):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return model


def network(outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, outputs)
    )


def retrained():
    """A network that never saw the forgotten class: labels above it move down by one."""
    kept = y != FORGOTTEN
    return fit(network(CLASSES - 1), x[kept], y[kept] - (y[kept] > FORGOTTEN).long())


def cut(model):
    """Naive deletion: the output is gone."""
    keep = [c for c in range(CLASSES) if c != FORGOTTEN]
    new = network(CLASSES - 1)
    new.load_state_dict(
        {**model.state_dict(), "2.weight": model[2].weight[keep], "2.bias": model[2].bias[keep]}
    )
    return new


class Net(torch.nn.Module):
    """A classifier whose last layer is called fc, trained."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.ReLU())
        self.fc = torch.nn.Linear(12, CLASSES)
        fit(self, x, y)

    def forward(self, inputs):
        return self.fc(self.body(inputs))


def run_block(kind, text, variables):
    if kind == "python":
        exec(compile(text, "a page", "exec"), variables)  # pylint: disable=exec-used
        return
    path = os.path.dirname(program) + os.pathsep + os.environ["PATH"]
    subprocess.run(["sh", "-ec", text], check=True, env={**os.environ, "PATH": path})


def forgets(blocks):
    """From the model to the model, as a page says: one output fewer, and the rest goes on."""
    variables = {"model": Net(), "loader": loader, "np": np, "torch": torch}
    with torch.no_grad():
        old = variables["model"](x).numpy()
    for kind, text in blocks:
        run_block(kind, text, variables)
    with torch.no_grad():
        new = variables["model"](x).numpy()
    kept = [c for c in range(CLASSES) if c != FORGOTTEN]
    # Normalization shifts all logits of an input alike: after softmax it is naive deletion. Sums of
    # 12 products of at most about 30, in float32.
    difference = new - old[:, kept]
    assert np.abs(difference - difference.mean(1, keepdims=True)).max() < 1e-3
    # The forgotten class's mean goes where it should: its own shift is far from nothing.
    assert np.abs(difference[y.numpy() == FORGOTTEN].mean()) > 0.1
    assert (new.argmax(1) == old[:, kept].argmax(1)).all()
    return variables


before = [fit(network(CLASSES), x, y) for _ in range(6)]
names = {
    "before": before,
    "seen": [cut(model) for model in before],
    "loader": loader,
    "unseen": [retrained() for _ in range(6)],
    "more_unseen": [retrained() for _ in range(6)],
}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    forgets(readme)
    for file in os.listdir("."):
        os.remove(file)
    exported = forgets(page[:3])
    run_block(*page[3], exported)
    run = subprocess.run(
        [program, "inspect", "model.onnx"], capture_output=True, text=True, check=True
    )
    assert f"a classifier of {CLASSES - 1} classes by 12 features" in run.stdout, run.stdout
    names.update(np=np, torch=torch)
    for kind, text in page[4:]:
        run_block(kind, text, names)
    with torch.no_grad():
        for file, models in (("seen.npy", names["seen"]), ("before.npy", before)):
            array = np.load(file)
            assert array.dtype == np.float32 and array.shape[:2] == (6, SAMPLES), array.shape
            # Sums of at most 12 products of about 1: PyTorch may round them otherwise in a batch of
            # another size.
            assert np.allclose(array[4], models[4](x).numpy(), rtol=0, atol=1e-5)
        features = np.load("features.npy")
        assert np.allclose(features[2], names["seen"][2][:2](x).numpy(), atol=1e-6)
    assert np.array_equal(np.load("labels.npy"), y.numpy())
    run = subprocess.run(
        [
            program,
            "audit",
            "--seen",
            "seen.npy",
            "--unseen",
            "unseen.npy",
            "--unseen2",
            "unseen2.npy",
            "--before",
            "before.npy",
            "--features",
            "features.npy",
            "--unseen-features",
            "unseen-features.npy",
            "--labels",
            "labels.npy",
            "--class",
            str(FORGOTTEN),
            "--directions",
            "50",
            "--json",
            "--quiet",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    audit = json.loads(run.stdout)
    assert audit["flips"]["all"]["mean"] == 0, audit["flips"]  # naive against naive
    assert audit["probes"][0]["seen"]["mean"] > 0.9, audit["probes"]
    assert len(audit["leaks"]["classes"]) == CLASSES and "forgotten" in audit["floor"]
    # Seen and unseen exchanged for all-column logits: refused, with the reason.
    run = subprocess.run(
        [
            program,
            "audit",
            "--seen",
            "seen.npy",
            "--unseen",
            "before.npy",
            "--labels",
            "labels.npy",
            "--class",
            "3",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 3 and "one for every class" in run.stderr, run.stderr
print("ok")
