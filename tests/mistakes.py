#!/usr/bin/python3
"""mistakes.py OUBLI: the ten commonest mistakes. Each message names the cause and the fix, comes
before anything is written, and nothing is left behind. A first success, too: what a person has
who never read a page. Exits 77 (skipped) without python3-onnx, PyTorch or ONNX Runtime."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import torch
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

OUBLI = os.path.abspath(sys.argv.pop(1))
CACHE = pathlib.Path(
    os.environ.get("OUBLI_DATA")
    or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "oubli")
)
if not any((CACHE / "runtime").glob("*/libonnxruntime.so.1")):
    print("skipped: no ONNX Runtime; 'oubli get-runtime' fetches one")
    sys.exit(77)

COLOURS = {"blue": (0, 0, 1), "green": (0, 1, 0), "red": (1, 0, 0), "yellow": (1, 1, 0)}
SIDE, EACH = 8, 30
RIGHT = ["--mean", "0.5", "--std", "0.25"]


def make_model(path, softmax=False):
    """Images of one colour, (x / 255 - 0.5) / 0.25: the mean of each channel, its two signs, and
    logits that are how well these fit each colour."""
    pixels = SIDE * SIDE
    means = np.zeros((3 * pixels, 6), np.float32)
    for channel in range(3):
        means[channel * pixels : (channel + 1) * pixels, 2 * channel] = 1 / pixels
        means[channel * pixels : (channel + 1) * pixels, 2 * channel + 1] = -1 / pixels
    signs = 2 * np.array(list(COLOURS.values()), np.float32) - 1
    weights = np.stack([signs, -signs], axis=2).reshape(len(COLOURS), 6)
    # Rows that sum to zero would be centred again, which is another story.
    weights[:, 0] += np.float32(0.01)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"]),
            helper.make_node("MatMul", ["flat", "means"], ["both"]),
            helper.make_node("Relu", ["both"], ["features"]),
            helper.make_node("Gemm", ["features", "W", "b"], ["logits"], transB=1),
        ],
        "colours",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", len(COLOURS)])],
        [
            numpy_helper.from_array(means, "means"),
            numpy_helper.from_array(weights, "W"),
            numpy_helper.from_array(np.zeros(len(COLOURS), np.float32), "b"),
        ],
    )
    if softmax:
        graph.node.append(helper.make_node("Softmax", ["logits"], ["p"], axis=1))
        graph.output[0].name = "p"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def image(rng, colour):
    clean = np.where(np.array(colour) > 0, 200, 55)
    return np.clip(rng.normal(clean, 30, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)


def make_folders(root, colours, grey=False):
    rng = np.random.default_rng(1)
    for name, colour in colours.items():
        (root / name).mkdir(parents=True)
        for i in range(EACH):
            pixels = image(rng, colour)
            if grey:
                head, pixels = b"P5\n%d %d\n255\n", pixels[:, :, 0]
            else:
                head = b"P6\n%d %d\n255\n"
            ending = "pgm" if grey else "ppm"
            (root / name / f"{i:03}.{ending}").write_bytes(head % (SIDE, SIDE) + pixels.tobytes())


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.temporary.name)
        make_model(self.folder / "model.onnx")
        make_folders(self.folder / "images", COLOURS)

    def tearDown(self):
        self.temporary.cleanup()

    def oubli(self, *words, env=None):
        done = subprocess.run(
            [OUBLI, *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**os.environ, **(env or {})},
        )
        return done.returncode, done.stdout, done.stderr

    def forget(self, *words, name="red", data="images", out="new.onnx", env=None):
        return self.oubli(
            "forget", "model.onnx", "--class", name, "--data", data, "-o", out, *words, env=env
        )

    def mistake(self, result, code, *says):
        got, out, err = result
        if os.environ.get("SHOW"):
            print(self.id().split(".")[-1], got, err, sep="\n")
        self.assertEqual(got, code, out + err)
        for words in says:
            self.assertIn(words, err)
        self.assertEqual(out, "")
        self.assertEqual(list(self.folder.glob("new*")), [], "something was left behind")

    def test_0_no_mistake(self):
        code, out, err = self.forget(*RIGHT, data="images/", name="red")
        self.assertEqual(code, 0, err)
        self.assertIn("Forgot class 2 (red): model.onnx (4 classes) -> new.onnx, 3 left.", out)
        self.assertIn("of images.", out)
        self.assertIn("class names are the subfolders of images", err)
        self.assertIn("blue, green, red, yellow", err)
        names = (self.folder / "new.onnx.class-names.txt").read_text()
        self.assertEqual(names, "blue\ngreen\nyellow\n")
        # Again on the same folder, where the images of the forgotten class still are.
        second = ["forget", "new.onnx", "--class", "blue", "-o", "newer.onnx", "--data", "images/"]
        code, out, err = self.oubli(*second, *RIGHT)
        self.assertEqual(code, 0, err)
        self.assertIn("Forgot class 0 (blue): new.onnx (3 classes) -> newer.onnx, 2 left.", out)
        self.assertIn("left out of images/: red, which the model has forgotten", err)
        self.assertIn("with --means new.onnx.means.npz no data is needed", err)
        for model, old in ("new", "model"), ("newer", "new"):
            words = ["--original", f"{old}.onnx", "--data", "images", "--recompute"]
            code, out, err = self.oubli("verify", f"{model}.onnx.receipt.json", *words)
            self.assertEqual(code, 0, out + err)
            self.assertIn("0 failed", out)

    def test_probabilities_are_judged_as_such(self):
        make_model(self.folder / "model.onnx", softmax=True)
        code, out, err = self.forget(*RIGHT)
        self.assertEqual(code, 0, err)
        self.assertIn("Users of this model see probabilities only: for them normalization is", out)
        self.assertNotIn("did not help", out)

    def test_classes_that_are_elsewhere_are_not_guessed(self):
        """A folder more than the model has classes, and no receipt: nobody knows which is which."""
        make_folders(self.folder / "images2", {**COLOURS, "white": (1, 1, 1)})
        self.mistake(self.forget(*RIGHT, data="images2", name="2"), 3, "5 classes, the model has 4")

    def test_lists_that_disagree_are_not_used(self):
        (self.folder / "classes.txt").write_text("a\nb\nc\nd\n")
        (self.folder / "labels.txt").write_text("b\na\nc\nd\n")
        code, _, err = self.oubli("inspect", "model.onnx", "--class", "a")
        self.assertEqual(code, 2)
        self.assertIn("name the classes differently; neither is used", err)

    def test_1_wrong_mean_and_std(self):
        # 0.5 and 0.25 are not among the common ones; 0.5 and 0.5 do as well on these images.
        tried = "with --scale 0.00392156863 --mean 0.5 --std 0.5"
        self.mistake(self.forget(), 4, "inputs look wrongly made", "on 100.0 % " + tried)
        self.assertEqual(self.forget("--mean", "0.5", "--std", "0.5")[0], 0)

    def test_2_misspelt_class(self):
        self.mistake(self.forget(*RIGHT, name="rde"), 2, "no class 'rde'", "did you mean red")
        self.mistake(self.forget(*RIGHT, name="re"), 2, "did you mean red")  # never silently
        # Before the model is run, which would cost minutes.
        nowhere = {"OUBLI_ONNXRUNTIME": "/nonexistent"}
        self.mistake(self.forget(*RIGHT, name="rde", env=nowhere), 2, "did you mean red")

    def test_3_data_of_other_classes(self):
        (self.folder / "names.txt").write_text("blue\ngreen\nred\nyellow\n")
        others = {"white": (1, 1, 1), **{k: v for k, v in COLOURS.items() if k != "green"}}
        make_folders(self.folder / "others", others)
        named = ["--class-names", "names.txt"]
        says = ["'white' is not a class of the model"]
        self.mistake(self.forget(*RIGHT, *named, data="others"), 3, *says)

    def test_4_grey_for_colour(self):
        make_folders(self.folder / "grey", COLOURS, grey=True)
        self.mistake(self.forget(*RIGHT, data="grey"), 4, "grey")

    def test_5_wrong_layout(self):
        self.mistake(self.forget(*RIGHT, "--layout", "nhwc"), 2, "--layout", "nchw")

    def test_6_missing_runtime(self):
        empty = {"OUBLI_ONNXRUNTIME": "/nonexistent", "OUBLI_DATA": str(self.folder)}
        self.mistake(self.forget(*RIGHT, env=empty), 7, "ONNX Runtime", "oubli get-runtime")

    def test_7_weights_instead_of_a_model(self):
        torch.save({"fc.weight": torch.ones(4, 6), "fc.bias": torch.ones(4)}, self.folder / "m.pt")
        words = ["forget", "m.pt", "--class", "1", "--data", "images", "-o", "new.pt"]
        self.mistake(self.oubli(*words), 2, "m.pt", "cannot be run on --data", "--features")

    def test_8_output_exists(self):
        (self.folder / "there.onnx").write_text("precious")
        self.mistake(self.forget(*RIGHT, out="there.onnx"), 2, "there.onnx", "exists", "--force")
        self.assertEqual((self.folder / "there.onnx").read_text(), "precious")

    def test_9_no_folder_for_the_output(self):
        self.mistake(self.forget(*RIGHT, out="no/new.onnx"), 6, "no/new.onnx", "folder")

    def test_10_labels_shifted(self):
        rng = np.random.default_rng(2)
        labels = np.arange(4 * EACH) % 4
        x = np.stack([image(rng, list(COLOURS.values())[label]) for label in labels])
        np.savez(self.folder / "shifted.npz", x=x, y=(labels + 1) % 4)
        self.mistake(self.forget(*RIGHT, data="shifted.npz", name="2"), 4, "labels", "order")
        np.savez(self.folder / "from-one.npz", x=x, y=labels + 1)
        self.mistake(self.forget(*RIGHT, data="from-one.npz", name="2"), 3, "label 4", "0 to 3")


if __name__ == "__main__":
    unittest.main()
