"""bench/run faces [MODEL]: how a network of `oubli reproduce faces` comes to its end; number 6 ends
badly.

faces_bench trains it again and shows every epoch. From its weights and Adam's moments after epoch
11 PyTorch then takes the same steps in double precision: if losses jump there too, the jumps are
the recipe's and not an error of ours. Rounding grows from step to step, so the two drift apart in
the end.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "oubli", "nn"))
from torch_oracle import logits_of, read_parameters  # noqa: E402

BATCH, EPOCH = 8, 50
JUMP = 0.05
torch.set_num_threads(1)


def replay(folder):
    """PyTorch's losses of the steps whose losses faces_bench wrote, and those."""
    with open(os.path.join(folder, "spec.json")) as file:
        spec = json.load(file)
    weights, first, second = (
        read_parameters(spec, os.path.join(folder, name + ".f32"))
        for name in ("parameters", "first", "second")
    )
    names = [entry["name"] for entry in spec["parameters"] if entry["trained"]]
    trained = [weights[name].requires_grad_() for name in names]

    def read(name, kind):
        return np.fromfile(os.path.join(folder, name), dtype=kind)

    images = torch.tensor(
        read("pixels.u8", np.uint8).reshape(-1, *spec["network"]["input"]) / 255.0
    )
    labels = torch.tensor(read("labels.u32", np.uint32).astype(np.int64))
    order = torch.tensor(read("order.u32", np.uint32).astype(np.int64))
    losses = []
    for step, chosen in enumerate(order.split(BATCH), spec["steps"] + 1):
        loss = F.cross_entropy(logits_of(spec, weights, images[chosen]), labels[chosen])
        rate = 1e-3 * (1 - 0.999**step) ** 0.5 / (1 - 0.9**step)  # Keras' form of Adam
        with torch.no_grad():
            for name, weight, gradient in zip(names, trained, torch.autograd.grad(loss, trained)):
                first[name] += 0.1 * (gradient - first[name])
                second[name] += 0.001 * (gradient**2 - second[name])
                weight -= rate * first[name] / (second[name].sqrt() + 1e-7)
        losses.append(loss.item())
    return np.array(losses), read("losses.f64", np.float64)


def main():
    model = sys.argv[1] if len(sys.argv) > 1 else "6"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [os.path.join(os.environ["OUBLI_BUILD"], "faces_bench"), model, folder], check=True
        )
        theirs, ours = replay(folder)
    for begin in range(0, len(ours), EPOCH):
        part = slice(begin, begin + EPOCH)
        apart = np.max(np.abs(ours[part] - theirs[part]) / np.maximum(ours[part], theirs[part]))
        print(
            f"epoch {12 + begin // EPOCH}: mean loss ours {ours[part].mean():.4f}, PyTorch "
            f"{theirs[part].mean():.4f}; "
            f"a step's losses differ by {100 * apart:.2g} % at most"
        )
        for step in np.flatnonzero(np.maximum(ours[part], theirs[part]) > JUMP):
            print(
                f"  step {step + 1}: ours {ours[part][step]:.4f}, PyTorch {theirs[part][step]:.4f}"
            )


main()
