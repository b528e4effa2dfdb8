#!/usr/bin/python3
"""names_e2e.py OUBLI: ONNX files, their class names: in metadata, in labels that the graph looks
up, in files. NumPy is the oracle."""
import json
import unittest

from onnx_case import OnnxCase, needs_runtime, oubli  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper
import model_parts as parts


class Names(OnnxCase):
    @needs_runtime
    def test_names_and_the_class_names_file(self):
        self.forget("names_python", "--class", "bee", "--data", self.at("data.npz"))
        self.assertNotIn(b"bee", open(self.at("new.onnx"), "rb").read())
        self.assertNotIn("bee", open(self.at("new.onnx.receipt.json")).read())
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(parts.NAMES) + "\n")
        self.forget(
            "gemm",
            "--class",
            "cat",
            "--class-names",
            self.at("names.txt"),
            "--data",
            self.at("data.npz"),
        )
        self.assertEqual(
            open(self.at("new.onnx.class-names.txt")).read().split(), ["ant", "bee", "dog", "elk"]
        )

    def test_names_in_every_known_spelling_are_cut(self):
        """Keys of the issue times JSON and Python spellings; what is said elsewhere is a
        finding."""
        by_name = {n: i for i, n in enumerate(parts.NAMES)}
        by_index = {i: n for n, i in by_name.items()}
        entries = {}
        for key in ("names", "class_names", "labels", "id2label"):
            entries.update(
                {
                    (key, i): text
                    for i, text in enumerate(
                        (
                            json.dumps(parts.NAMES),
                            str(parts.NAMES),
                            str(tuple(parts.NAMES)),
                            json.dumps(by_index),
                            str(by_index),
                            ",".join(parts.NAMES),
                        )
                    )
                }
            )
        entries.update(
            {("label2id", i): text for i, text in enumerate((json.dumps(by_name), str(by_name)))}
        )
        model = onnx.load(self.model("gemm"))
        for (key, number), text in entries.items():
            del model.metadata_props[:]
            helper.set_model_props(model, {key: text, "stride": "32"})
            onnx.save(model, self.at("spelled.onnx"))
            self.forget("spelled", "--class", "bee", "--method", "naive")
            self.assertNotIn(b"bee", open(self.at("new.onnx"), "rb").read(), (key, text))
            self.assertEqual(
                json.load(open(self.at("new.onnx.receipt.json")))["findings"], [], (key, text)
            )
            kept = {p.key: p.value for p in onnx.load(self.at("new.onnx")).metadata_props}
            self.assertEqual(kept["stride"], "32")
            for name in ("ant", "cat", "dog", "elk"):
                self.assertIn(name, kept[key], (key, text))
        del model.metadata_props[:]
        helper.set_model_props(
            model, {"names": str(parts.NAMES), "remarks": "trained on every bee we met"}
        )
        onnx.save(model, self.at("spelled.onnx"))
        self.forget("spelled", "--class", "bee", "--method", "naive")
        findings = json.load(open(self.at("new.onnx.receipt.json")))["findings"]
        self.assertEqual([f["where"] for f in findings], ["metadata 'remarks'"])
        self.assertIn("forgotten class 1", findings[0]["text"])
        self.assertNotIn("bee", json.dumps(findings))

    def with_labels(self, name, labels, metadata):
        """The gemm model, which also outputs the label of the best class."""
        model = onnx.load(self.model("gemm"))
        logits = model.graph.output[0].name
        model.graph.node.extend(
            [
                helper.make_node("ArgMax", [logits], ["best"], axis=1, keepdims=0),
                helper.make_node("Gather", ["labels", "best"], ["label"]),
            ]
        )
        model.graph.initializer.append(
            helper.make_tensor(
                "labels", TensorProto.STRING, [parts.K], [n.encode() for n in labels]
            )
        )
        model.graph.output.append(helper.make_tensor_value_info("label", TensorProto.STRING, ["n"]))
        helper.set_model_props(model, metadata)
        onnx.save(model, self.model(name))

    def test_labels_of_the_graph_are_class_names(self):
        self.with_labels("labelled", parts.NAMES, {"about": "tells a bee from a cat"})
        for c in (1, "bee"):
            self.forget("labelled", "--class", c, "--method", "naive")
            np.testing.assert_array_equal(
                self.head(self.at("new.onnx"))[0], np.delete(parts.W, 1, 0)
            )
            receipt = json.load(open(self.at("new.onnx.receipt.json")))
            self.assertEqual(
                [f["where"] for f in receipt["findings"] if "still says" in f["text"]],
                ["metadata 'about'"],
            )
        # Two vocabularies: the metadata's is used, both are searched for.
        self.with_labels(
            "labelled",
            ["Ameise", "Biene", "Katze", "Hund", "Elch"],
            {"names": str(parts.NAMES), "about": "Bienen", "more": "eine Biene"},
        )
        self.forget("labelled", "--class", "bee", "--method", "naive")
        receipt = open(self.at("new.onnx.receipt.json")).read()
        self.assertEqual(
            [f["where"] for f in json.loads(receipt)["findings"] if "still says" in f["text"]],
            ["metadata 'more'"],
        )
        self.assertNotIn("Biene", receipt)

    def test_names_in_two_orders_are_not_used(self):
        self.with_labels("contrary", parts.NAMES, {"names": str(parts.NAMES[::-1])})
        self.forget("contrary", "--class", "bee", "--method", "naive", code=2)
        self.assertIn("in another order", oubli("inspect", self.model("contrary"))[1])
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(parts.NAMES) + "\n")
        self.forget(
            "contrary", "--class", "bee", "--method", "naive", "--class-names", self.at("names.txt")
        )
        np.testing.assert_array_equal(self.head(self.at("new.onnx"))[0], np.delete(parts.W, 1, 0))

    def test_names_that_contradict_the_models(self):
        model = onnx.load(self.model("gemm"))
        helper.set_model_props(model, {"names": str(parts.NAMES)})
        onnx.save(model, self.at("own_names.onnx"))

        def names(listed):
            with open(self.at("names.txt"), "w") as file:
                file.write("\n".join(listed) + "\n")
            return ["--method", "naive", "--class-names", self.at("names.txt")]

        text = self.forget("own_names", "--class", "bee", *names(parts.NAMES[::-1]), code=2)
        self.assertIn("'bee'", text)
        self.assertIn("'dog'", text)
        self.forget("own_names", "--class", "bee", *names(parts.NAMES))
        self.assertIn(
            "another name",
            self.forget(
                "own_names",
                "--class",
                "Biene",
                *names(["Ameise", "Biene", "Katze", "Hund", "Elch"]),
            ),
        )
        names(parts.NAMES[::-1])
        code, _, stderr = oubli(
            "means",
            self.model("gemm"),
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
            "-o",
            self.at("turned.npz"),
            "--force",
            "--class-names",
            self.at("names.txt"),
        )
        self.assertEqual(code, 0, stderr)
        self.forget("own_names", "--class", "bee", "--means", self.at("turned.npz"), code=2)
        del model.metadata_props[:]
        helper.set_model_props(model, {"names": str(["ant", "bee", "bee", "dog", "elk"])})
        onnx.save(model, self.at("own_names.onnx"))
        self.assertIn(
            "1 and 2", self.forget("own_names", "--class", "bee", "--method", "naive", code=2)
        )
        self.forget("own_names", "--class", 2, "--method", "naive")

    def test_findings_are_printed(self):
        model = onnx.load(self.model("gemm"))
        helper.set_model_props(
            model, {"names": str(parts.NAMES), "remarks": "trained on every bee we met"}
        )
        onnx.save(model, self.at("remarks.onnx"))
        text = self.forget("remarks", "--class", "bee", "--method", "naive")
        self.assertIn("note: metadata 'remarks' still says the name of forgotten class 1", text)

    def test_rarer_spellings_are_cut_or_said(self):
        names = parts.NAMES

        def forget(key, text, *words):
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(model, {key: text})
            onnx.save(model, self.at("rare.onnx"))
            self.forget("rare", "--method", "naive", *words)
            new = onnx.load(self.at("new.onnx")).metadata_props[0].value
            return new, json.load(open(self.at("new.onnx.receipt.json")))["findings"]

        records = [{"id": i, "name": n} for i, n in enumerate(names)]

        def nested(listed, depth=1, **style):
            """A configuration in a string of a configuration, several times over."""
            text = json.dumps(
                {
                    "id2label": dict(enumerate(listed)),
                    "label2id": {n: i for i, n in enumerate(listed)},
                    "text": '"é\\',
                },
                **style,
            )
            for _ in range(depth):
                text = json.dumps({"name": "it's", "inner": text, "size": 3}, **style)
            return text

        for key, text, wanted in (
            ("labels", ",".join(names) + "\n", "ant,cat,dog,elk\n"),
            ("labels", ";".join(names), "ant;cat;dog;elk"),
            (
                "labels",
                json.dumps(records),
                json.dumps(
                    [{"id": i, "name": n} for i, n in enumerate(("ant", "cat", "dog", "elk"))]
                ),
            ),
            ("config", str({"names": tuple(names)}), "{'names': ('ant', 'cat', 'dog', 'elk')}"),
            (
                "names",
                str({i + 1: n for i, n in enumerate(names)}),
                "{1: 'ant', 2: 'cat', 3: 'dog', 4: 'elk'}",
            ),
            ("config", nested(names), nested(["ant", "cat", "dog", "elk"])),
            ("config", nested(names, 3), nested(["ant", "cat", "dog", "elk"], 3)),
            (
                "config",
                nested(names, 2, indent=2),
                nested(["ant", "cat", "dog", "elk"], 2, indent=2),
            ),
            (
                "names",
                json.dumps(json.dumps(names)),
                json.dumps(json.dumps(["ant", "cat", "dog", "elk"])),
            ),
        ):
            for words in (("--class", 1), ("--class", "bee")):
                self.assertEqual(forget(key, text, *words), (wanted, []), text)
        # Not known here: said, even if the names are not known.
        for key, text in (
            ("labels", "|".join(names)),
            ("config", json.dumps({"labels": ",".join(names)})),
            ("names", json.dumps(["background"] + names)),
        ):
            new, findings = forget(key, text, "--class", 1)
            self.assertEqual(new, text)
            unchanged = [f for f in findings if "unchanged" in f["text"]]
            self.assertEqual(len(unchanged), 1, text)

    def test_names_are_found_however_they_are_written(self):
        def places(name, **rest):
            names = ["ant", name, "cat", "dog", "elk"]
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(
                model,
                {
                    "names": json.dumps(names),
                    **{k: v for k, v in rest.items() if isinstance(v, str)},
                },
            )
            for key, strings in rest.items():
                if not isinstance(strings, str):
                    model.graph.node.insert(
                        0, helper.make_node("Constant", [], [key], name=key, value_strings=strings)
                    )
            onnx.save(model, self.at("said.onnx"))
            self.forget("said", "--class", name, "--method", "naive")
            receipt = open(self.at("new.onnx.receipt.json")).read()
            self.assertNotIn(name.lower(), receipt.lower())
            return [
                f["where"] for f in json.loads(receipt)["findings"] if "still says" in f["text"]
            ]

        about = ["metadata 'about'"]
        self.assertEqual(places("José", about=json.dumps({"people": ["José"]})), about)
        self.assertEqual(places("José", about=json.dumps({"inner": json.dumps(["José"])})), about)
        self.assertEqual(places('O\'Neil "Bob"', about=json.dumps(['O\'Neil "Bob"'])), about)
        self.assertEqual(places('O\'Neil "Bob"', about=repr('O\'Neil "Bob"')), about)
        self.assertEqual(places("Alice", about="ALICE and alice"), about)
        self.assertEqual(places("Alice", about="x " * 600000 + "Alice"), about)
        self.assertEqual(places("Alice", shown=["Bob", "Alice"]), ["node 'shown'"])
        self.assertEqual(places("Alice", ALICE=["Bob"]), ["node '...'"])
        self.assertEqual(places("Relu"), [])  # an operator is no mention

    def test_classes_named_by_digits(self):
        """The key says which side of a dictionary is the index, whatever is quoted: class '2' is
        row 0 here."""
        names = ["2", "0", "1", "4", "3"]
        by_index, by_name = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
        quoted = {n: str(i) for n, i in by_name.items()}
        numbers = {i: int(n) for i, n in by_index.items()}
        sources = [
            {"names": str(numbers)},
            {"names": json.dumps(numbers)},
            {"id2label": json.dumps(by_index)},
            {"label2id": json.dumps(quoted)},
            {"label2id": str(quoted)},
            {"label2id": json.dumps(by_name)},
            {"id2label": json.dumps(by_index), "label2id": json.dumps(quoted)},
            {"config": json.dumps({"id2label": by_index, "label2id": quoted})},
        ]
        for source in sources:
            model = onnx.load(self.model("gemm"))
            helper.set_model_props(model, source)
            onnx.save(model, self.at("digits.onnx"))
            self.forget("digits", "--class", "name:2", "--method", "naive")
            new = onnx.load(self.at("new.onnx"))
            np.testing.assert_array_equal(
                self.head(self.at("new.onnx"))[0], parts.W[1:], str(source)
            )
            kept = {p.key: eval(p.value) for p in new.metadata_props}
            kept = kept.get("config", kept)
            for key, value in kept.items():
                value = {str(k): str(v) for k, v in value.items()}
                self.assertEqual(
                    value,
                    {"0": "0", "1": "1", "4": "2", "3": "3"}
                    if key == "label2id"
                    else {"0": "0", "1": "1", "2": "4", "3": "3"},
                    (source, key),
                )


if __name__ == "__main__":
    unittest.main(verbosity=2)
