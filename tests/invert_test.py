#!/usr/bin/env python3
"""invert_test.py OUBLI: `oubli invert`, `oubli report` and `forget --report` on tiny data made
here."""
import itertools
import hashlib
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
import zlib

OUBLI = pathlib.Path(sys.argv.pop(1)).resolve()


class InvertTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        for person in range(1, 6):  # a bright square of its own place, s1 ... s5
            folder = cls.folder / "data" / "faces" / f"s{person}"
            folder.mkdir(parents=True)
            for number in range(1, 5):
                rows = [
                    bytes(
                        200 if x // 8 == person % 3 and y // 8 == person // 3 else 40 + 5 * number
                        for x in range(24)
                    )
                    for y in range(24)
                ]
                (folder / f"{number}.pgm").write_bytes(b"P5\n24 24\n255\n" + b"".join(rows))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def oubli(self, *arguments, code=0):
        done = subprocess.run(
            [OUBLI, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=os.environ | {"OUBLI_DATA": str(self.folder / "data")},
            check=False,
        )
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_writes_pictures_figures_and_a_report(self):
        out = self.folder / "inversion"
        run = self.oubli("invert", "faces", "--epochs", 30, "--networks", 2, "-o", out, "--jobs", 1)
        self.assertIn("normalization", run.stdout)
        for name in ("sheet.png", "full.png", "ghost.png"):
            self.assertEqual((out / name).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")
        document = json.loads((out / "inversion.json").read_text())
        self.assertEqual(document["networks"], 2)
        self.assertEqual((document["height"], document["width"]), (12, 12))  # half of 24
        self.assertEqual(document["class_names"], ["s1", "s2", "s3", "s4"])
        # The same again, on two threads, gives the same bytes.
        again = self.folder / "again"
        self.oubli("invert", "faces", "--epochs", 30, "--networks", 2, "-o", again, "--jobs", 2)
        for name in ("inversion.json", "sheet.png", "full.png", "ghost.png"):
            self.assertEqual((out / name).read_bytes(), (again / name).read_bytes())
        # It is not overwritten unasked.
        self.oubli("invert", "faces", "-o", out, code=2)
        page = self.folder / "report.html"
        done = self.oubli("report", out, "-o", page, "--json")
        self.assertEqual(json.loads(done.stdout)["report"], str(page))
        self.assertIn(str(page), done.stderr)
        self.assertIn("Model inversion", page.read_text())
        # It counts what there was: each of 4 classes forgotten by each of 2 networks.
        best = {}
        for row in document["likeness"]:
            if row["target"].startswith("forgotten"):
                self.assertEqual((row["networks"], row["pictures"]), (2, 8))
                recognised = round(8 * row["recognised"]["mean"])
                best[row["state"]] = max(best.get(row["state"], 0), recognised)
        self.assertIn(
            f"recognised in {best['naive']} of 8 pictures of 2 networks after naive, in "
            f"{best['normalization']} of 8 pictures of 2 networks after normalization, in "
            f"{best['retrained']} of 8 pictures of 2 networks that never saw it (guessing: 1 in 4)",
            page.read_text(),
        )
        self.oubli("report", out, "-o", page, code=2)
        self.oubli("report", out, "-o", page, "--force")

    def test_options(self):
        for start in ("noise", "mean", "image:3", "0.2"):
            run = self.oubli(
                "invert",
                "faces",
                "--full-size",
                "--classes",
                3,
                "--epochs",
                1,
                "--steps",
                1,
                "--class",
                "s2",
                "--method",
                "centre",
                "--no-retrained",
                "--start",
                start,
                "--json",
                "-o",
                self.folder / start.replace(":", ""),
            )
            document = json.loads(run.stdout)
            self.assertEqual(document["height"], 24)
            self.assertEqual({row["state"] for row in document["likeness"]}, {"before", "centre"})

    def test_attacks_a_saved_network(self):
        spec = self.folder / "net.json"
        spec.write_text(
            json.dumps(
                {
                    "format": "oubli-network",
                    "version": 1,
                    "layers": [{"kind": "dense", "units": 30}, {"kind": "sigmoid"}],
                }
            )
        )
        model = self.folder / "model.onnx"
        self.oubli(
            "-q", "train", "faces", "--network", spec, "--epochs", 30, "--seed", 1, "-o", model
        )
        saved = self.folder / "saved"
        self.oubli(
            "invert", "faces", "--model", model, "--class", "s2", "--class", "s4", "-o", saved
        )
        # The network that invert itself trains is the same one.
        trained = self.folder / "trained"
        self.oubli(
            "invert",
            "faces",
            "--full-size",
            "--classes",
            5,
            "--network",
            spec,
            "--epochs",
            30,
            "--class",
            "s2",
            "--class",
            "s4",
            "--no-retrained",
            "-o",
            trained,
        )
        for name in ("sheet.png", "full.png", "ghost.png"):
            self.assertEqual((saved / name).read_bytes(), (trained / name).read_bytes())
        ours, theirs = (
            json.loads((folder / "inversion.json").read_text()) for folder in (saved, trained)
        )
        self.assertEqual(ours["likeness"], theirs["likeness"])
        self.assertEqual(
            (ours["model"], ours["networks"], ours["class_names"]),
            ("model.onnx", 1, ["s1", "s2", "s3", "s4", "s5"]),
        )
        self.assertNotIn("retrained", ours["caption"])
        # Trained without s3: images are matched by the classes' names.
        partial = self.folder / "partial.onnx"
        self.oubli(
            "-q",
            "train",
            "faces",
            "--network",
            spec,
            "--epochs",
            30,
            "--without",
            "s3",
            "-o",
            partial,
        )
        run = self.oubli(
            "invert", "faces", "--model", partial, "--json", "-o", self.folder / "partial"
        )
        document = json.loads(run.stdout)
        self.assertEqual(document["class_names"], ["s1", "s2", "s4", "s5"])
        before = [row for row in document["likeness"] if row["state"] == "before"]
        self.assertEqual(before[0]["recognised"]["mean"], 1)
        (self.folder / "cut.onnx").write_bytes(model.read_bytes()[:100])
        self.assertIn(
            "cut.onnx",
            self.oubli(
                "invert",
                "faces",
                "--model",
                self.folder / "cut.onnx",
                "-o",
                self.folder / "cut",
                code=3,
            ).stderr,
        )
        self.oubli(
            "invert", "faces", "--model", model, "--networks", 2, "-o", self.folder / "cut", code=2
        )
        self.assertFalse((self.folder / "cut").exists())

    def test_starts_from_an_image_file(self):
        def run(start, *more):
            out = self.folder / f"start{next(self.counter)}"
            self.oubli(
                "invert",
                "faces",
                "--epochs",
                1,
                "--steps",
                2,
                "--class",
                "s1",
                "--no-retrained",
                "--start",
                start,
                "-o",
                out,
                *more,
            )
            return (out / "full.png").read_bytes()

        face = self.folder / "data" / "faces" / "s1" / "4.pgm"
        pixels = face.read_bytes()[-24 * 24 :]
        png = self.folder / "face.png"
        png.write_bytes(png_of(24, 24, pixels))
        for more in ([], ["--full-size"]):  # at half size the file is halved as the images are
            wanted = run("image:3", *more)
            self.assertEqual(run(face, *more), wanted)
            self.assertEqual(run(png, *more), wanted)
            self.assertNotEqual(run("0.5", *more), wanted)
        small = self.folder / "small.pgm"
        small.write_bytes(b"P5\n5 4\n255\n" + bytes(20))
        self.assertIn(
            "small.pgm: an image of 1 x 4 x 5, wanted 1 x 12 x 12",
            self.oubli(
                "invert", "faces", "--start", small, "-o", self.folder / "no", code=3
            ).stderr,
        )

    counter = itertools.count()

    def test_says_what_is_wrong(self):
        cases = [
            (2, "--start", ["faces", "--start", "2"]),
            (2, "image:", ["faces", "--start", "image:999"]),
            (2, "s2", ["faces", "--class", "s22"]),
            (2, "no method is named", ["faces", "--method", "magic"]),
            (2, "--classes", ["faces", "--classes", "9"]),
            (2, "at least two", ["faces", "--classes", "2"]),
            (7, "oubli get-data mnist", ["mnist"]),
        ]
        for code, words, arguments in cases:
            with self.subTest(arguments=arguments):
                done = self.oubli("invert", *arguments, "-o", self.folder / "wrong", code=code)
                self.assertIn(words, done.stderr)
                self.assertFalse((self.folder / "wrong").exists())
        bad = self.folder / "bad.json"
        bad.write_text("{}")
        self.assertIn(
            "bad.json", self.oubli("report", bad, "-o", self.folder / "bad.html", code=3).stderr
        )
        self.assertFalse((self.folder / "bad.html").exists())
        self.oubli("report", self.folder / "nothing", code=2)


def png_of(width, height, pixels):
    """A grey PNG file."""

    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def npy(code, shape, values):
    """The bytes of a .npy file; code is a type letter of struct."""
    kind = {"f": "<f4", "q": "<i8"}[code]
    header = repr({"descr": kind, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(header))
        + header.encode()
        + struct.pack(f"<{len(values)}{code}", *values)
    )


class ForgetReportTest(unittest.TestCase):
    def test_forget_draws_its_receipt(self):
        classes, features, per_class = 4, 6, 30
        stream = random.Random(1)
        weights = [stream.gauss(0, 1) for _ in range(classes * features)]
        labels = [c for c in range(classes) for _ in range(per_class)]
        data = [
            weights[c * features + j] + stream.gauss(0, 0.5)
            for c in labels
            for j in range(features)
        ]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            with zipfile.ZipFile(folder / "head.npz", "w") as archive:
                archive.writestr("W.npy", npy("f", (classes, features), weights))
            (folder / "f.npy").write_bytes(npy("f", (len(labels), features), data))
            (folder / "y.npy").write_bytes(npy("q", (len(labels),), labels))
            command = [
                OUBLI,
                "forget",
                "head.npz",
                "--class",
                "2",
                "--features",
                "f.npy",
                "--labels",
                "y.npy",
                "-o",
                "new.npz",
                "--report",
                "report.html",
            ]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("report.html", done.stderr)
            page = (folder / "report.html").read_text()
            self.assertIn("<strong>Class 2</strong> was taken out of", page)
            receipt = (folder / "new.npz.receipt.json").read_bytes()
            self.assertIn(hashlib.sha256(receipt).hexdigest()[:32], page)
            for extra in (["--dry-run"], []):  # needs a receipt; exists already
                again = subprocess.run(
                    command + extra, cwd=folder, capture_output=True, text=True, check=False
                )
                self.assertEqual(again.returncode, 2, again.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
