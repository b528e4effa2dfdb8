"""Forgetting in Hugging Face folders: one file or shards, configurations of both libraries."""

import json
import os
import shutil
import struct
import sys

try:
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

from format_case import FormatCase, main, oubli

K, P = 6, 12
NAMES = ["ant", "tabby cat", "golden retriever", "fox", "gnu", "hen"]
GONE = 2
KEPT = [j for j in range(K) if j != GONE]
rng = np.random.default_rng(11)
W = rng.standard_normal((K, P)).astype(np.float32)
B = rng.standard_normal(K).astype(np.float32)
BODY = rng.standard_normal((P, K)).astype(np.float32)
README = "# A model\nIt tells a golden retriever from a fox.\n"


def write_safetensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", None)
    return metadata, {
        name: np.frombuffer(data[8 + size :][slice(*t["data_offsets"])], np.float32).reshape(
            t["shape"]
        )
        for name, t in header.items()
    }


class HuggingFace(FormatCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.make_features(W)

    def new_folder(self, name, config, head="classifier", **more):
        folder = self.at(name)
        os.makedirs(os.path.join(folder, "extra"))
        tensors = {"vit.embeddings.weight": BODY, head + ".weight": W, head + ".bias": B}
        tensors.update(more.get("tensors", {}))
        if more.get("shards"):
            files = {
                t: "model-0000%d-of-00002.safetensors" % (1 + t.startswith(head)) for t in tensors
            }
            for file in set(files.values()):
                write_safetensors(
                    os.path.join(folder, file),
                    {t: a for t, a in tensors.items() if files[t] == file},
                )
            total = sum(a.nbytes for a in tensors.values())
            index = {
                "metadata": {"total_size": total, "total_parameters": total // 4},
                "weight_map": files,
            }
            with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
                json.dump(index, f, indent=2)
        else:
            write_safetensors(os.path.join(folder, "model.safetensors"), tensors)
        texts = {
            "config.json": json.dumps(config, indent=2),
            "README.md": README,
            "extra/notes.txt": "nothing",
        }
        texts["tokenizer.json"] = "golden retriever"
        texts["preprocessor_config.json"] = json.dumps(
            {
                "do_rescale": True,
                "rescale_factor": 0.5,
                "do_normalize": True,
                "image_mean": [0.5],
                "image_std": [0.25],
                "size": 32,
            }
        )
        for file, text in texts.items():
            with open(os.path.join(folder, file), "w") as f:
                f.write(text)
        return folder

    def transformers(self):
        return {
            "architectures": ["ViTForImageClassification"],
            "id2label": {str(i): n for i, n in enumerate(NAMES)},
            "label2id": {n: i for i, n in enumerate(NAMES)},
        }

    def expect_copies(self, old, new, besides):
        for file in (
            "README.md",
            "extra/notes.txt",
            "tokenizer.json",
            "preprocessor_config.json",
            *besides,
        ):
            a, b = (open(os.path.join(self.at(f), file), "rb").read() for f in (old, new))
            self.assertEqual(a, b, file)

    def test_one_file(self):
        folder = self.new_folder("vit", self.transformers())
        for name in ("optimizer.pt", "tf_model.h5"):
            open(os.path.join(folder, name), "w").write("x")
        os.mkdir(os.path.join(folder, ".git"))
        open(os.path.join(folder, ".git", "old"), "w").write("x")
        words = [
            "--class",
            "golden retriever",
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
        ]
        said = self.forget("vit", *words, out="vit_new")
        self.assertIn("2 (golden retriever)", said)
        self.assertIn("--scale 0.5 --mean 0.5 --std 0.25 --size 32x32", said)
        self.assertIn("README.md still says the name", said)
        self.assertNotIn("tokenizer.json still", said)
        self.expect_copies("vit", "vit_new", [])
        files = sorted(
            os.path.join(d, f)[len(self.at("vit_new")) + 1 :]
            for d, _, fs in os.walk(self.at("vit_new"))
            for f in fs
        )
        self.assertEqual(
            files,
            [
                "README.md",
                "config.json",
                "extra/notes.txt",
                "model.safetensors",
                "preprocessor_config.json",
                "tokenizer.json",
            ],
        )
        config = json.load(open(os.path.join(self.at("vit_new"), "config.json")))
        kept = [NAMES[j] for j in KEPT]
        self.assertEqual(config["id2label"], {str(i): n for i, n in enumerate(kept)})
        self.assertEqual(config["label2id"], {n: i for i, n in enumerate(kept)})
        metadata, made = read_safetensors(os.path.join(self.at("vit_new"), "model.safetensors"))
        self.assertEqual(metadata, {"format": "pt"})
        by_index = ["--class", GONE] + words[2:]
        weights, bias = self.by_npz(W.T.copy(), B, *by_index)
        np.testing.assert_array_equal(made["classifier.weight"], weights.T)
        np.testing.assert_array_equal(made["classifier.bias"], bias)
        np.testing.assert_array_equal(made["vit.embeddings.weight"], BODY)
        self.verify("vit", "vit_new", "--features", self.at("f.npy"), "--labels", self.at("y.npy"))
        receipt = open(self.at("vit_new.receipt.json")).read()
        self.assertNotIn("retriever", receipt)
        # And once more, as a chain, from the means that were left.
        said = self.forget(
            "vit_new", "--class", "fox", "--means", self.at("vit_new.means.npz"), out="vit_newer"
        )
        self.assertIn("2 (fox)", said)
        self.verify(
            "vit_new",
            "vit_newer",
            "--means",
            self.at("vit_new.means.npz"),
            "--previous",
            self.at("vit_new.receipt.json"),
        )
        # A changed file is noticed.
        path = os.path.join(self.at("vit_newer"), "config.json")
        open(path, "a").write("\n")
        code, _, _ = oubli(
            "verify", self.at("vit_newer.receipt.json"), "--model", self.at("vit_newer")
        )
        self.assertEqual(code, 5)

    def test_shards(self):
        self.new_folder("large", self.transformers(), shards=True)
        self.forget("large", "--class", "golden retriever", "--method", "naive", out="large_new")
        old, new = (
            json.load(open(os.path.join(self.at(f), "model.safetensors.index.json")))
            for f in ("large", "large_new")
        )
        self.assertEqual(old["weight_map"], new["weight_map"])
        self.assertEqual(old["metadata"]["total_size"] - new["metadata"]["total_size"], 4 * (P + 1))
        self.assertEqual(
            old["metadata"]["total_parameters"] - new["metadata"]["total_parameters"], P + 1
        )
        self.expect_copies("large", "large_new", ["model-00001-of-00002.safetensors"])
        _, made = read_safetensors(
            os.path.join(self.at("large_new"), "model-00002-of-00002.safetensors")
        )
        np.testing.assert_array_equal(made["classifier.weight"], W[KEPT])
        self.verify("large", "large_new")

    def test_pytorch_model_bin(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no PyTorch")
        folder = self.new_folder("bin", self.transformers())
        os.remove(os.path.join(folder, "model.safetensors"))
        state = {"vit.embeddings.weight": BODY, "classifier.weight": W, "classifier.bias": B}
        state = {name: torch.tensor(array) for name, array in state.items()}
        torch.save(state, os.path.join(folder, "pytorch_model.bin"))
        words = ["--class", "golden retriever", "--method", "naive"]
        self.forget("bin", *words, out="bin_new")
        made = torch.load(os.path.join(self.at("bin_new"), "pytorch_model.bin"))
        np.testing.assert_array_equal(made["classifier.weight"].numpy(), W[KEPT])
        np.testing.assert_array_equal(made["vit.embeddings.weight"].numpy(), BODY)
        self.verify("bin", "bin_new")

    def test_two_heads(self):
        """DeiT averages two heads; both lose the class, and their mean is what it should be."""
        second = {"distillation_classifier.weight": 2 * W[::-1], "distillation_classifier.bias": -B}
        second = {name: np.ascontiguousarray(a) for name, a in second.items()}
        self.new_folder("deit", self.transformers(), "cls_classifier", tensors=second)
        names = ["cls_classifier", "distillation_classifier"]

        def heads_of(folder):
            _, tensors = read_safetensors(os.path.join(self.at(folder), "model.safetensors"))
            return [(tensors[n + ".weight"], tensors[n + ".bias"]) for n in names]

        self.forget("deit", "--class", GONE, "--method", "naive", out="deit_naive")
        for (w, b), (new_w, new_b) in zip(heads_of("deit"), heads_of("deit_naive")):
            np.testing.assert_array_equal(new_w, w[KEPT])
            np.testing.assert_array_equal(new_b, b[KEPT])
        self.verify("deit", "deit_naive")
        (w1, b1), (w2, b2) = heads_of("deit")
        both, mean = np.hstack([w1, w2]) / 2, (b1 + b2) / 2
        self.make_features(both)
        words = ["--class", GONE, "--features", self.at("f.npy"), "--labels", self.at("y.npy")]
        self.forget("deit", *words, out="deit_new")
        weights, bias = self.by_npz(both.T.copy(), mean, *words)
        (v1, c1), (v2, c2) = heads_of("deit_new")
        np.testing.assert_array_equal(np.hstack([v1, v2]) / 2, weights.T)
        np.testing.assert_array_equal((c1 + c2) / 2, bias)
        self.verify("deit", "deit_new", *words[2:])
        self.make_features(W)

    def test_timm(self):
        config = {
            "architecture": "resnet50",
            "num_classes": K,
            "label_names": NAMES,
            "pretrained_cfg": {"classifier": "head.fc", "num_classes": K},
        }
        self.new_folder("timm", config, "head.fc", tensors={"fc.weight": W + 1})
        self.forget("timm/", "--class", "golden retriever", "--method", "naive", out="timm_new/")
        self.assertTrue(os.path.exists(self.at("timm_new.receipt.json")))
        made = json.load(open(os.path.join(self.at("timm_new"), "config.json")))
        config.update(num_classes=K - 1, label_names=[NAMES[j] for j in KEPT])
        config["pretrained_cfg"]["num_classes"] = K - 1
        self.assertEqual(made, config)
        _, tensors = read_safetensors(os.path.join(self.at("timm_new"), "model.safetensors"))
        np.testing.assert_array_equal(tensors["head.fc.weight"], W[KEPT])

    def test_roberta_and_links(self):
        """classifier.dense is no head where classifier.out_proj is; a cache's files are links."""
        folder = self.new_folder(
            "roberta",
            self.transformers(),
            "classifier.out_proj",
            tensors={
                "classifier.dense.weight": np.eye(P, dtype=np.float32),
                "classifier.dense.bias": np.zeros(P, np.float32),
            },
        )
        os.mkdir(self.at("cache"))
        for name in ("config.json", "model.safetensors"):
            os.symlink(os.path.join(folder, name), os.path.join(self.at("cache"), name))
        self.forget("cache", "--class", "golden retriever", "--method", "naive", out="cache_new")
        _, made = read_safetensors(os.path.join(self.at("cache_new"), "model.safetensors"))
        np.testing.assert_array_equal(made["classifier.out_proj.weight"], W[KEPT])
        self.assertFalse(os.path.islink(os.path.join(self.at("cache_new"), "model.safetensors")))

    def test_refusals(self):
        self.new_folder("there", self.transformers())
        naive = ["--class", "fox", "--method", "naive"]
        self.assertIn("input", self.forget("there", *naive, out="there/new", code=2))
        os.mkdir(self.at("taken"))
        got, out, err = oubli("forget", self.at("there"), *naive, "-o", self.at("taken"))
        self.assertEqual(got, 2, err)
        wrong = dict(self.transformers(), num_labels=K + 1)
        self.new_folder("wrong", wrong)
        self.assertIn("6 classes, and 7", self.forget("wrong", *naive, out="no", code=3))
        multi = dict(self.transformers(), problem_type="multi_label_classification")
        self.new_folder("multi", multi)
        words = ["--class", "fox", "--features", self.at("f.npy"), "--labels", self.at("y.npy")]
        self.assertIn("non-linear", self.forget("multi", *words, out="no", code=4))
        folder = self.new_folder("empty", self.transformers())
        os.remove(os.path.join(folder, "model.safetensors"))
        self.assertIn("no model.safetensors", self.forget("empty", *naive, out="no", code=3))
        folder = self.new_folder("escape", self.transformers(), shards=True)
        index = os.path.join(folder, "model.safetensors.index.json")
        text = (
            open(index)
            .read()
            .replace("model-00002-of-00002.safetensors", "../there/model.safetensors")
        )
        open(index, "w").write(text)
        self.assertIn("in no file of this folder", self.forget("escape", *naive, out="no", code=3))
        shutil.rmtree(self.at("taken"))


if __name__ == "__main__":
    main()
