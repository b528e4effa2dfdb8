"""oubli.hf.forget: folders of Hugging Face, from arrays, batches and means."""

import json
import os
import struct
import unittest

import numpy as np

import oubli
from support import Case, run, toy


def write_folder(folder, W, b, names):
    """config.json and model.safetensors, as save_pretrained() leaves them."""
    os.mkdir(folder)
    config = {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        "id2label": {str(j): name for j, name in enumerate(names)},
        "label2id": {name: j for j, name in enumerate(names)},
    }
    with open(f"{folder}/config.json", "w") as out:
        json.dump(config, out, indent=2)
    tensors = {
        "classifier.bias": b,
        "classifier.weight": W,
        "vit.embeddings": np.ones(5, "float32"),
    }
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, array in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": array.shape,
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(f"{folder}/model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            out.write(array.tobytes())


def weights_in(folder):
    with open(f"{folder}/model.safetensors", "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        entry = json.loads(file.read(size))["classifier.weight"]
        begin, end = entry["data_offsets"]
        file.seek(8 + size + begin)
        return np.frombuffer(file.read(end - begin), "float32").reshape(entry["shape"])


class Folders(Case):
    def setUp(self):
        super().setUp()
        self.W, self.b, self.x, self.y = toy()
        write_folder("vit", self.W, self.b, ["ant", "bee", "cat", "dog"])

    def test_arrays_batches_and_means(self):
        np.save("features.npy", self.x)
        np.save("labels.npy", self.y)
        run(
            "forget",
            "vit",
            "--class",
            "bee",
            "--features",
            "features.npy",
            "--labels",
            "labels.npy",
            "-o",
            "program",
        )
        means = oubli.Means(classes=4)
        means.update(self.x, self.y)
        batches = [(self.x[i : i + 50], self.y[i : i + 50]) for i in range(0, 400, 50)]
        for number, data in enumerate(
            [
                (self.x, self.y),
                {"features": self.x, "labels": self.y},
                iter(batches),
                [dict(zip(("features", "labels"), batch)) for batch in batches],
                means,
            ]
        ):
            receipt = oubli.hf.forget("vit", data, ["bee"], out=f"new{number}")
            self.assertEqual(receipt.path, f"new{number}.receipt.json")
            for name in os.listdir("program"):
                with open(f"program/{name}", "rb") as a, open(f"new{number}/{name}", "rb") as b:
                    self.assertEqual(a.read(), b.read(), name)
        self.assertEqual(weights_in("new0").shape, (3, 8))
        with open("new0/config.json") as file:
            self.assertEqual(json.load(file)["id2label"], {"0": "ant", "1": "cat", "2": "dog"})

    def test_refusals(self):
        self.refuses(2, "no folder", oubli.hf.forget, "none", None, [1], out="new", method="naive")
        self.refuses(
            2, "wanted features and labels", oubli.hf.forget, "vit", {"x": 1}, [1], out="new"
        )
        self.refuses(
            2, "wanted (features, labels)", oubli.hf.forget, "vit", [1, 2, 3], [1], out="new"
        )
        self.refuses(2, "emu", oubli.hf.forget, "vit", None, ["emu"], out="new", method="naive")
        self.assertFalse(os.path.exists("new"))


if __name__ == "__main__":
    unittest.main()
