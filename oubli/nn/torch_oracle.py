"""torch_oracle.py FOLDER: loss, logits and gradients of a network in double precision, for
torch_test.cpp.

Reads spec.json (layers, parameter names and shapes), parameters.f32, images.f32 (channels first),
labels.u32; writes result.json (loss), logits.f64 and gradients.f64 (of the trained parameters, in
order). bench/faces.py uses its functions.
"""
import json
import os
import sys

import numpy as np
import torch
from torch.nn import functional as F


def read_parameters(spec, path):
    """Name to tensor, in double precision, of a file with all of them one after another."""
    raw = np.fromfile(path, dtype=np.float32)
    found, at = {}, 0
    for entry in spec["parameters"]:
        count = int(np.prod(entry["shape"]))
        found[entry["name"]] = torch.tensor(
            raw[at : at + count].astype(np.float64).reshape(entry["shape"])
        )
        at += count
    assert at == raw.size
    return found


def same_padding(size, kernel, stride):
    """TensorFlow's: PyTorch has no `same` at stride 2, and would pad both sides alike."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def layer(entry, weights, x, name):
    kind = entry["kind"]
    bias = weights.get(name + ".bias")
    if kind == "dense":
        return F.linear(x.flatten(1), weights[name + ".weight"], bias)
    if kind == "conv":
        kernel, stride = entry["kernel"], entry.get("stride", 1)
        if entry.get("padding") == "same":
            x = F.pad(
                x,
                (
                    *same_padding(x.shape[3], kernel, stride),
                    *same_padding(x.shape[2], kernel, stride),
                ),
            )
        return F.conv2d(x, weights[name + ".weight"], bias, stride)
    if kind == "max_pool":
        return F.max_pool2d(x, entry["kernel"], entry.get("stride", 1))
    if kind == "global_max_pool":
        return F.adaptive_max_pool2d(x, 1)
    if kind == "global_average_pool":
        return F.adaptive_avg_pool2d(x, 1)
    if kind == "batch_norm":
        return F.batch_norm(
            x, None, None, weights[name + ".scale"], weights[name + ".shift"], True, 0.01, 1e-3
        )
    if kind == "relu":
        return torch.relu(x)
    if kind == "sigmoid":
        return torch.sigmoid(x)
    if kind == "residual":
        return sequence(entry["branch"], weights, x, name + ".branch") + sequence(
            entry["shortcut"], weights, x, name + ".shortcut"
        )
    raise ValueError(kind)


def sequence(layers, weights, x, name):
    for i, entry in enumerate(layers):
        x = layer(entry, weights, x, f"{name}.{i}")
    return x


def logits_of(spec, weights, images):
    return layer(
        {"kind": "dense"},
        weights,
        sequence(spec["network"]["layers"], weights, images, "layers"),
        "head",
    )


def main(folder):
    def path(name):
        return os.path.join(folder, name)

    torch.set_num_threads(1)
    with open(path("spec.json")) as file:
        spec = json.load(file)
    weights = read_parameters(spec, path("parameters.f32"))
    trained = [
        weights[entry["name"]].requires_grad_() for entry in spec["parameters"] if entry["trained"]
    ]
    images = (
        np.fromfile(path("images.f32"), dtype=np.float32)
        .astype(np.float64)
        .reshape(-1, *spec["network"]["input"])
    )
    labels = torch.tensor(np.fromfile(path("labels.u32"), dtype=np.uint32).astype(np.int64))
    logits = logits_of(spec, weights, torch.tensor(images))
    loss = F.cross_entropy(logits, labels)
    gradients = torch.autograd.grad(loss, trained)
    np.concatenate([gradient.numpy().ravel() for gradient in gradients]).tofile(
        path("gradients.f64")
    )
    logits.detach().numpy().tofile(path("logits.f64"))
    with open(path("result.json"), "w") as file:
        json.dump({"loss": loss.item()}, file)


if __name__ == "__main__":
    main(sys.argv[1])
