"""Forgetting in Keras files, .h5 and .keras, judged by h5py, h5diff and h5repack."""
import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

import make_keras as keras
from format_case import DATA, FormatCase, main, oubli

GONE = 3
KEPT = [j for j in range(keras.K) if j != GONE]


def hdf5_of(path):
    if zipfile.is_zipfile(path):
        return h5py.File(io.BytesIO(zipfile.ZipFile(path).read("model.weights.h5")), "r")
    return h5py.File(path, "r")


def config_of(path):
    if zipfile.is_zipfile(path):
        return json.loads(zipfile.ZipFile(path).read("config.json"))
    with h5py.File(path, "r") as f:
        text = f.attrs.get("model_config")
    return None if text is None else json.loads(text)


def datasets_of(f):
    found = {}
    f.visititems(
        lambda name, item: found.update({name: item[()]})
        if isinstance(item, h5py.Dataset)
        else None
    )
    return found


def value_at(document, path):
    for step in path:
        document = document[step]
    return document


class Keras(FormatCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.expect = keras.make(cls.folder)
        cls.make_features(keras.KERNEL.T)

    def check(self, name, new, expected, kernel, bias):
        old_path, new_path = self.at(name), self.at(new)
        self.assertEqual(
            os.path.getsize(old_path) if "deflated" not in name else 0,
            os.path.getsize(new_path) if "deflated" not in name else 0,
        )
        old, made = datasets_of(hdf5_of(old_path)), datasets_of(hdf5_of(new_path))
        self.assertEqual(list(old), list(made))
        changed = {expected["kernel"]: kernel}
        if expected["bias"]:
            changed[expected["bias"]] = bias
        for moment in expected["moments"]:
            changed[moment] = old[moment][..., KEPT]
        for path in old:
            wanted = changed.get(path, old[path])
            self.assertEqual(made[path].shape, wanted.shape, path)
            np.testing.assert_array_equal(made[path], wanted, path)
        config, before = config_of(new_path), config_of(old_path)
        if expected["units"]:
            self.assertEqual(value_at(config, expected["units"]), len(kernel[0]))
            # All that changed in the configuration counts classes.
            text_old, text_new = json.dumps(before), json.dumps(config)
            for a, b in zip(
                text_old.replace(" ", "").split(","), text_new.replace(" ", "").split(",")
            ):
                if a != b:
                    self.assertIn(str(keras.K), a)
                    self.assertEqual(a.replace(str(keras.K), str(len(kernel[0]))), b)
        raw_old, raw_new = open(old_path, "rb").read(), open(new_path, "rb").read()
        if "deflated" not in name:
            differ = sum(a != b for a, b in zip(raw_old, raw_new))
            room = sum(old[p].nbytes for p in changed) + 40 * len(changed) + 80
            self.assertLess(differ, room)
        # The forgotten column is nowhere, not even in what was zeroed.
        column = keras.KERNEL[:, GONE].tobytes()
        self.assertIn(
            keras.KERNEL[:, GONE].tobytes()[:4],
            raw_old if "deflated" not in name else keras.KERNEL.tobytes(),
        )
        for value in keras.KERNEL[:8, GONE]:
            if "deflated" not in name and expected["kernel"].count("sequential_3") == 0:
                self.assertNotIn(value.tobytes(), raw_new, "a forgotten number")
        self.assertNotIn(column, raw_new)

    def test_naive_in_every_layout(self):
        for name, expected in self.expect.items():
            with self.subTest(name):
                new = "naive_" + name
                self.forget(name, "--class", GONE, "--method", "naive", out=new)
                kernel = datasets_of(hdf5_of(self.at(name)))[expected["kernel"]]
                bias = (
                    datasets_of(hdf5_of(self.at(name)))[expected["bias"]]
                    if expected["bias"]
                    else None
                )
                self.check(
                    name, new, expected, kernel[:, KEPT], None if bias is None else bias[KEPT]
                )
                self.verify(name, new)

    def test_normalization_is_that_of_npz(self):
        for name, expected in self.expect.items():
            if expected["shows"] or name in ("keras3_flat.h5",):
                continue
            with self.subTest(name):
                new = "normalized_" + name
                words = [
                    "--class",
                    GONE,
                    "--features",
                    self.at("f.npy"),
                    "--labels",
                    self.at("y.npy"),
                ]
                if not expected["bias"]:
                    words += ["--solver", "paper"]
                self.forget(name, *words, out=new)
                kernel, bias = self.by_npz(
                    keras.KERNEL, keras.BIAS if expected["bias"] else None, *words
                )
                self.assertFalse((kernel == keras.KERNEL[:, KEPT]).all())
                self.check(name, new, expected, kernel, bias)
                self.verify(name, new, "--features", self.at("f.npy"), "--labels", self.at("y.npy"))

    def test_other_tools_read_it(self):
        for name in ("keras2.h5", "functional_latest.h5", "teachable.h5"):
            new = "tools_" + name
            self.forget(name, "--class", GONE, "--method", "naive", out=new)
            said = subprocess.run(
                ["h5diff", "-c", self.at(name), self.at(new)], capture_output=True, text=True
            ).stdout
            objects = [line for line in said.splitlines() if line.startswith("Not comparable")]
            self.assertEqual(
                len(objects),
                1 + bool(self.expect[name]["bias"]) + len(self.expect[name]["moments"]),
                said,
            )
            subprocess.run(["h5repack", self.at(new), self.at("repacked.h5")], check=True)
            again, made = datasets_of(h5py.File(self.at("repacked.h5"), "r")), datasets_of(
                h5py.File(self.at(new), "r")
            )
            for path in made:
                np.testing.assert_array_equal(again[path], made[path])

    def test_chain_means_and_inspect(self):
        said = self.run_ok("inspect", self.at("keras2.h5"))
        self.assertIn("10 classes by 16 features", said)
        self.assertIn("optimizer_weights/Adam/dense_1/kernel/m:0", said)
        self.run_ok(
            "means",
            self.at("keras2.h5"),
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
            "-o",
            self.at("m.npz"),
        )
        self.forget("keras2.h5", "--class", "3", "--means", self.at("m.npz"), out="one.h5")
        self.forget("one.h5", "--class", "0", "--means", self.at("one.h5.means.npz"), out="two.h5")
        self.verify(
            "one.h5",
            "two.h5",
            "--means",
            self.at("one.h5.means.npz"),
            "--previous",
            self.at("one.h5.receipt.json"),
        )
        self.assertEqual(
            value_at(config_of(self.at("two.h5")), ["config", "layers", 1, "config", "units"]), 8
        )
        self.assertTrue(
            self.receipt("two.h5")["previous"]["sha256"]
            if isinstance(self.receipt("two.h5").get("previous"), dict)
            else True
        )

    def test_sigmoid_shows_a_shift(self):
        words = ["--class", GONE, "--features", self.at("f.npy"), "--labels", self.at("y.npy")]
        said = self.forget("sigmoid.h5", *words, out="no.h5", code=4)
        self.assertIn("non-linear", said)

    def test_a_copy_of_a_column_is_told(self):
        """Also where the archive is compressed, and the file itself shows nothing of it."""
        arrays = datasets_of(hdf5_of(self.at("stored.keras")))
        for deflate in (False, True):
            for copies in ([], [("layers/other/vars/0", keras.KERNEL[:, GONE].copy())]):
                keras.keras_zip(
                    self.at("copy.keras"),
                    config_of(self.at("stored.keras")),
                    [*arrays.items(), *copies],
                    deflate,
                )
                new = "copy_%d%d.keras" % (deflate, len(copies))
                said = self.forget("copy.keras", "--class", GONE, "--method", "naive", out=new)
                found = "still holds the weights of forgotten class 3" in said
                self.assertEqual(found, bool(copies), said)
                self.verify("copy.keras", new)

    def test_no_room_for_a_bias(self):
        words = [
            "--class",
            GONE,
            "--solver",
            "affine",
            "--features",
            self.at("f.npy"),
            "--labels",
            self.at("y.npy"),
        ]
        said = self.forget("teachable.h5", *words, out="no_room.h5", code=4)
        self.assertIn("--solver paper", said)

    def test_weights_that_are_named(self):
        head = "model_weights/dense_1/dense_1/kernel:0"
        naive = ["--class", GONE, "--method", "naive"]
        self.forget("keras2.h5", *naive, "--weights", head, out="named.h5")
        made = config_of(self.at("named.h5"))
        self.assertEqual(value_at(made, ["config", "layers", 1, "config", "units"]), keras.K - 1)
        hidden = head.replace("dense_1", "dense")
        said = self.forget("keras2.h5", *naive, "--weights", hidden, out="no.h5", code=2)
        self.assertIn("the configuration says that the last layer is", said)
        said = self.forget("keras2.h5", *naive, "--no-bias", out="no.h5", code=3)
        self.assertIn("says that it has a bias", said)
        # Without a configuration the bias goes with its kernel.
        kernel = "dense_1/dense_1/kernel:0"
        self.forget("weights_only.h5", *naive, "--weights", kernel, out="named_only.h5")
        with h5py.File(self.at("named_only.h5"), "r") as f:
            self.assertEqual(f["dense_1/dense_1/bias:0"].shape, (keras.K - 1,))

    def test_labels_beside(self):
        folder = self.at("machine")
        os.mkdir(folder)
        shutil.copy(self.at("teachable.h5"), os.path.join(folder, "keras_model.h5"))
        names = [
            "rock",
            "paper",
            "scissors",
            "lizard",
            "spock",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
        ]
        open(os.path.join(folder, "labels.txt"), "w").write(
            "".join("%d %s\n" % pair for pair in enumerate(names))
        )
        said = self.forget(
            "machine/keras_model.h5",
            "--class",
            "scissors",
            "--method",
            "naive",
            out="machine/new.h5",
        )
        self.assertIn("2 (scissors)", said)
        left = open(os.path.join(folder, "new.h5.labels.txt")).read().splitlines()
        self.assertEqual(
            left, ["%d %s" % pair for pair in enumerate(n for n in names if n != "scissors")]
        )
        self.assertNotIn("scissors", open(os.path.join(folder, "new.h5.receipt.json")).read())
        self.verify("machine/keras_model.h5", "machine/new.h5")
        said = self.forget(
            "machine/new.h5", "--class", "lizard", "--method", "naive", out="machine/newer.h5"
        )
        self.assertIn("2 (lizard)", said)
        self.assertIn(
            "no class",
            self.forget(
                "machine/keras_model.h5",
                "--class",
                "scissor",
                "--method",
                "naive",
                out="machine/no.h5",
                code=2,
            ),
        )

    def test_refusals(self):
        for name, (code, words) in keras.make_refused(self.folder).items():
            with self.subTest(name):
                self.assertIn(
                    words,
                    self.forget(
                        name, "--class", GONE, "--method", "naive", out="refused.h5", code=code
                    ),
                )

    def test_old_units_are_noticed(self):
        """The check above can fail: with the old number of units the file is refused."""
        self.forget("keras2.h5", "--class", GONE, "--method", "naive", out="units.h5")
        with h5py.File(self.at("units.h5"), "a") as f:
            config = json.loads(f.attrs["model_config"])
            config["config"]["layers"][1]["config"]["units"] = keras.K
            f.attrs["model_config"] = json.dumps(config).encode()
        code, _, said = oubli("inspect", self.at("units.h5"))
        self.assertEqual(code, 3)
        self.assertIn("the configuration says that there are 10 classes", said)

    def test_a_file_of_somebody_else(self):
        path = os.path.join(DATA, "mlperf_tiny_resnet8_cifar10.h5")
        if not DATA or not os.path.exists(path):
            self.skipTest("OUBLI_TEST_DATA has no mlperf_tiny_resnet8_cifar10.h5")
        shutil.copy(path, self.at("resnet.h5"))
        os.chmod(self.at("resnet.h5"), 0o644)
        self.forget("resnet.h5", "--class", 3, "--method", "naive", out="resnet_new.h5")
        old, new = datasets_of(h5py.File(path, "r")), datasets_of(
            h5py.File(self.at("resnet_new.h5"), "r")
        )
        changed = {p for p in old if old[p].shape != new[p].shape}
        self.assertEqual(len(changed), 6, changed)
        for p in old:
            np.testing.assert_array_equal(new[p], old[p][..., KEPT] if p in changed else old[p])
        self.verify("resnet.h5", "resnet_new.h5")


if __name__ == "__main__":
    main()
