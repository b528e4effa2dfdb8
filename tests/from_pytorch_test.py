"""Runs the Python blocks of docs/from-pytorch.md on small networks, and audits what they wrote.

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
page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "from-pytorch.md")
with open(page, encoding="utf-8") as file:
    blocks = re.findall(r"```python\n(.*?)```", file.read(), re.S)
assert len(blocks) == 2, blocks

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


def network(outputs):
    return torch.nn.Sequential(
        torch.nn.Linear(8, 12), torch.nn.ReLU(), torch.nn.Linear(12, outputs)
    )


def cut(model):
    """Naive deletion: the output is gone."""
    keep = [c for c in range(CLASSES) if c != FORGOTTEN]
    new = network(CLASSES - 1)
    new.load_state_dict(
        {**model.state_dict(), "2.weight": model[2].weight[keep], "2.bias": model[2].bias[keep]}
    )
    return new


before = [network(CLASSES) for _ in range(6)]
names = {
    "before": before,
    "seen": [cut(model) for model in before],
    "loader": loader,
    "unseen": [network(CLASSES - 1) for _ in range(6)],
    "more_unseen": [network(CLASSES - 1) for _ in range(6)],
}
with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # pylint: disable=exec-used
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
