"""oubli.hf.forget: folders of Hugging Face, from arrays, batches, datasets, means, an export."""

import importlib.util
import json
import os
import struct
import types
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


class Dataset:
    """What of datasets.Dataset is used: columns by name, and the names of a ClassLabel."""

    def __init__(self, columns, names):
        self.columns = columns
        self.column_names = list(columns)
        self.features = {name: None for name in columns}
        if names is not None:
            self.features["label"] = types.SimpleNamespace(names=names)

    def __len__(self):
        return len(self.columns["label"])

    def __getitem__(self, name):
        return self.columns[name]


def save_onnx(path, body, W, b):
    """logits = W (body x) + b"""
    from onnx import TensorProto, helper, numpy_helper, save

    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "body"], ["f"], transB=1),
            helper.make_node("Gemm", ["f", "W", "b"], ["logits"], transB=1),
        ],
        "vit",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", body.shape[1]])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(W)])],
        [numpy_helper.from_array(array, name) for name, array in dict(body=body, W=W, b=b).items()],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)


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

    def test_samples_one_by_one(self):
        """As torch's and other datasets give them when they are iterated over."""
        oubli.hf.forget("vit", (self.x, self.y), ["bee"], out="all")
        samples = list(zip(self.x, self.y))
        for number, data in enumerate(
            [
                iter(samples),
                [{"features": x, "label": int(y)} for x, y in samples],
                [{"features": x.tolist(), "labels": y} for x, y in samples],
            ]
        ):
            oubli.hf.forget("vit", data, ["bee"], out=f"new{number}")
            self.assertSame(weights_in(f"new{number}"), weights_in("all"))
        mixed = [*samples[:3], (self.x[3].astype("float64"), self.y[3])]
        self.refuses(3, "all alike", oubli.hf.forget, "vit", mixed, ["bee"], out="new")

    def test_datasets(self):
        """Guarded and measured as arrays are; its names must be those of the model."""
        names = ["ant", "bee", "cat", "dog"]
        oubli.hf.forget("vit", (self.x, self.y), ["bee"], out="all")
        data = Dataset({"features": self.x.tolist(), "label": self.y.tolist()}, names)
        receipt = oubli.hf.forget("vit", data, ["bee"], out="new")
        self.assertSame(weights_in("new"), weights_in("all"))
        self.assertIsNotNone(receipt.leaks)
        turned = Dataset(data.columns, names[::-1])
        said = self.refuses(3, "class 0 is 'dog'", oubli.hf.forget, "vit", turned, [1], out="no")
        self.assertIn("the model's is 'ant'", str(said))
        short = Dataset(data.columns, names[:3])
        self.refuses(
            3, "3 classes, but the model has 4", oubli.hf.forget, "vit", short, [1], out="no"
        )
        wrong = Dataset({"features": self.x, "label": (self.y + 1) % 4}, None)
        self.refuses(4, "misaligned", oubli.hf.forget, "vit", wrong, [1], out="no")
        text = Dataset({"features": self.x, "label": np.array(names, object)[self.y]}, None)
        self.refuses(3, "data: label", oubli.hf.forget, "vit", text, [1], out="no")
        other = Dataset({"pixels": self.x, "label": self.y}, None)
        self.refuses(2, "has pixels, label; wanted", oubli.hf.forget, "vit", other, [1], out="no")
        self.assertFalse(os.path.exists("no"))

    def test_an_onnx_export_is_run(self):
        if importlib.util.find_spec("onnx") is None:
            self.skipTest("onnx is not installed")
        body = np.random.default_rng(2).normal(size=(8, 8)).astype("float32")
        body += 4 * np.eye(8, dtype="float32")
        save_onnx("vit.onnx", body, self.W, self.b)
        inputs = np.linalg.solve(body.astype(float), self.x.T.astype(float)).T.astype("float32")
        np.savez("data.npz", x=inputs, y=self.y)
        words = ("--class", "bee", "--data", "data.npz", "--run-with", "vit.onnx")
        run("forget", "vit", *words, "-o", "program")
        names = ["ant", "bee", "cat", "dog"]
        for number, data in enumerate(
            [
                "data.npz",
                (inputs, self.y),
                {"x": inputs, "labels": self.y},
                Dataset({"pixel_values": list(inputs), "label": self.y.tolist()}, names),
            ]
        ):
            receipt = oubli.hf.forget("vit", data, ["bee"], out=f"new{number}", run_with="vit.onnx")
            self.assertIsNotNone(receipt.leaks)
            self.assertSame(weights_in(f"new{number}"), weights_in("program"))
        # The export computes the features that the layer reads, up to rounding.
        direct = oubli.hf.forget("vit", (self.x, self.y), ["bee"], out="direct")
        self.assertIsNotNone(direct.leaks)
        np.testing.assert_allclose(weights_in("new0"), weights_in("direct"), rtol=0, atol=1e-5)
        save_onnx("other.onnx", body, self.W + 1, self.b)
        self.refuses(
            3, "differ", oubli.hf.forget, "vit", "data.npz", [1], out="no", run_with="other.onnx"
        )
        means = oubli.Means(classes=4)
        means.update(self.x, self.y)
        self.refuses(
            2, "run_with", oubli.hf.forget, "vit", means, [1], out="no", run_with="vit.onnx"
        )
        self.assertFalse(os.path.exists("no"))

    def test_refusals(self):
        self.refuses(2, "no folder", oubli.hf.forget, "none", None, [1], out="new", method="naive")
        self.refuses(
            2, "wanted one of features and labels", oubli.hf.forget, "vit", {"x": 1}, [1], out="new"
        )
        self.refuses(
            2, "wanted (features, labels)", oubli.hf.forget, "vit", [1, 2, 3], [1], out="new"
        )
        self.refuses(2, "emu", oubli.hf.forget, "vit", None, ["emu"], out="new", method="naive")
        self.assertFalse(os.path.exists("new"))


if __name__ == "__main__":
    unittest.main()
