"""make_pickle_seeds.py FOLDER: small files of PyTorch, scikit-learn and joblib for pickle_fuzz."""

import io
import pathlib
import pickle
import sys
import zipfile

import joblib
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

folder = pathlib.Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
torch.manual_seed(0)
W, b = torch.randn(5, 8), torch.randn(5)


def save(name, content):
    (folder / name).write_bytes(content)


def torch_pickle(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return zipfile.ZipFile(out).read("archive/data.pkl") if not options else out.getvalue()


# Storages 0, 2, 4 are of 5 x 8 numbers, 1, 3, 5 of 5, as pickle_fuzz lays them beside the pickle.
names = ["ant", "bee", "cat", "dog", "eel"]
save("state_dict", torch_pickle({"fc.weight": W, "fc.bias": b}))
save(
    "checkpoint",
    torch_pickle(
        {
            "state_dict": {"module.fc.weight": W, "module.fc.bias": b},
            "ema": {"fc.weight": W * 2, "fc.bias": b * 2},
            "optimizer": {
                "state": {0: {"momentum_buffer": W * 3}, 1: {"momentum_buffer": b * 3}},
                "param_groups": [{"lr": 0.1, "params": [0, 1]}],
            },
            "classes": names,
            "class_to_idx": {name: i for i, name in enumerate(names)},
        }
    ),
)
linear = torch.nn.Linear(8, 5)
save("module", torch_pickle(linear))
save("old", torch_pickle({"fc.weight": W, "fc.bias": b}, _use_new_zipfile_serialization=False))

rng = np.random.default_rng(0)
X, y = rng.normal(size=(40, 3)), np.arange(40) % 4
words = np.array(["ant", "bee", "cat", "dog"])
model = LogisticRegression().fit(X, y)
for protocol in (3, 4, 5):
    save(f"logistic{protocol}", pickle.dumps(model, protocol))
save("objects", pickle.dumps(LinearSVC().fit(X, words[y].astype(object)), 4))
save(
    "pipeline",
    pickle.dumps(make_pipeline(StandardScaler(), LogisticRegression()).fit(X, words[y]), 4),
)
for name, labels, options in [
    ("joblib", y, {}),
    ("joblib_objects", words[y].astype(object), {}),
    ("joblib_zlib", y, {"compress": 3}),
]:
    out = io.BytesIO()
    joblib.dump(LogisticRegression().fit(X, labels), out, **options)
    save(name, out.getvalue())
save(
    "plain",
    pickle.dumps({"a": [1, 2.5, None, True, b"x", (1, 2, 3, 4)], "b": {1, 2}, "c": 1 << 70}, 4),
)
