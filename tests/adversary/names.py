#!/usr/bin/python3
"""names.py OUBLI: the name of a forgotten class is cut out of the new file, or the receipt says
where it still stands, without saying it."""
import json
import unittest
import unicodedata
import urllib.parse

from adversary import B, Case, K, W, classifier

import numpy as np
import onnx
from onnx import TensorProto, helper

NAME = "Jos\u00e9 Garc\u00eda"
NAMES = ["apple", NAME, "plum", "fig", "date"]


class Names(Case):
    def said(self, model, new="new.onnx", *words):
        """Where the receipt says that the name still stands."""
        self.forget(model, "--force", *words, new=new)
        with open(self.at(new + ".receipt.json"), encoding="utf-8") as file:
            text = file.read()
        for form in ("NFC", "NFD"):
            self.assertNotIn(unicodedata.normalize(form, NAME), text)
        return [f["where"] for f in json.loads(text)["findings"] if "still says" in f["text"]]

    def with_names(self, change, names=True):
        model = classifier()
        if names:
            model.metadata_props.add(key="class_names", value=json.dumps(NAMES))
        change(model)
        self.save(model)
        return self.said("model.onnx")

    def test_nothing_is_said_where_nothing_is(self):
        self.assertEqual(self.with_names(lambda m: None), [])

    def test_other_spellings(self):
        full_width = "".join(chr(ord(c) + 0xFEE0) if "!" < c < "~" else c for c in NAME)
        for text in (
            unicodedata.normalize("NFD", NAME),
            unicodedata.normalize("NFKD", NAME).upper(),
            NAME.upper(),
            NAME.lower(),
            "Jose Garcia",
            full_width,
            urllib.parse.quote(NAME),
            urllib.parse.quote(unicodedata.normalize("NFD", NAME)).lower(),
            json.dumps([NAME]),
        ):
            with self.subTest(text):
                places = self.with_names(
                    lambda m: m.metadata_props.add(key="about", value="of %s, too" % text)
                )
                self.assertEqual(places, ["metadata 'about'"])

    def test_texts_of_the_graph(self):
        def model_text(model):
            model.doc_string = "knows %s" % NAME

        def graph_text(model):
            model.graph.doc_string = "knows %s" % NAME

        def node_text(model):
            model.graph.node[-1].doc_string = "knows %s" % NAME

        for change, place in (
            (model_text, "the model's doc_string"),
            (graph_text, "the graph's doc_string"),
            (node_text, "node 'fc'"),
        ):
            self.assertEqual(self.with_names(change), [place])

    def test_names_of_outputs(self):
        def change(model):
            model.graph.node.append(helper.make_node("Identity", ["y"], ["Jos\u00e9 Garc\u00eda?"]))
            model.graph.output.append(
                helper.make_tensor_value_info("Jos\u00e9 Garc\u00eda?", TensorProto.FLOAT, ["n", K])
            )

        places = self.with_names(change)
        self.assertTrue(any(p.startswith("output '...") for p in places), places)

    def test_an_output_whose_name_lists_the_classes(self):
        """Nobody gave names: the list is found, and said to be stale."""

        def change(model):
            listed = json.dumps(NAMES, ensure_ascii=False)
            model.graph.node[-1].output[0] = listed
            model.graph.output[0].name = listed

        places = self.with_names(change, names=False)
        self.assertTrue(any(p.startswith("output '") for p in places), places)

    def test_tensors_of_bytes(self):
        letters = np.frombuffer(NAME.encode(), np.uint8)
        for kind in (TensorProto.UINT8, TensorProto.INT8):
            raw = onnx.TensorProto(name="letters", dims=[len(letters)], data_type=kind)
            raw.raw_data = letters.tobytes()
            places = self.with_names(lambda m: m.graph.initializer.append(raw))
            self.assertEqual(places, ["tensor 'letters'"])
        typed = helper.make_tensor("letters", TensorProto.UINT8, [11], list(b"jose garcia"))
        places = self.with_names(lambda m: m.graph.initializer.append(typed))
        self.assertEqual(places, ["tensor 'letters'"])

    def test_arrays_of_bytes(self):
        with open(self.at("names.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(NAMES))
        np.savez(self.at("m.npz"), W=W, b=B, letters=np.frombuffer(NAME.encode(), np.uint8))
        places = self.said("m.npz", "n.npz", "--class-names", "names.txt")
        self.assertEqual(places, ["letters.npy"])


if __name__ == "__main__":
    unittest.main()
