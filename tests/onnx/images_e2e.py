#!/usr/bin/python3
"""images_e2e.py OUBLI: ONNX files that take images: folders, formats, layouts, and the memory they
take. NumPy is the oracle."""
import json
import os
import shutil
import subprocess
import unittest

from onnx_case import (
    OUBLI,
    OnnxCase,
    needs_runtime,
    oubli,
)  # first: skips where python3-onnx is missing

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import images as pictures
import model_parts as parts


class Images(OnnxCase):
    @needs_runtime
    def test_folders_of_images(self):
        rng = np.random.default_rng(5)
        images = rng.integers(0, 256, (900, 4, 4, 3), dtype=np.uint8)
        x = np.pad(
            images.transpose(0, 3, 1, 2).astype(np.float64) / 255, ((0, 0), (0, 0), (1, 1), (1, 1))
        )
        maps = np.stack(
            [
                [
                    (
                        x[:, :, i : i + 3, j : j + 3].reshape(len(x), -1)
                        @ parts.KERNEL.reshape(parts.P, -1).T
                    )
                    for j in range(4)
                ]
                for i in range(4)
            ]
        )
        f = np.maximum(maps, 0).mean(axis=(0, 1))
        w = parts.W.astype(np.float64)
        logits = f @ w.T + parts.B
        y = logits.argmax(1)
        classes = [j for j in range(parts.K) if (y == j).sum() >= 1]
        root = self.at("images")
        for j in range(parts.K):
            os.makedirs(os.path.join(root, parts.NAMES[j]))
        for i, (image, label) in enumerate(zip(images, y)):
            with open(os.path.join(root, parts.NAMES[label], "%04d.ppm" % i), "wb") as file:
                file.write(b"P6\n4 4\n255\n" + image.tobytes())
        if len(classes) < parts.K:
            for j in set(range(parts.K)) - set(classes):
                shutil.rmtree(os.path.join(root, parts.NAMES[j]))
        forget = parts.NAMES[int(np.bincount(y).argmax())]
        with open(self.at("names.txt"), "w") as file:
            file.write("\n".join(parts.NAMES) + "\n")
        words = [
            "--class",
            forget,
            "--class-names",
            self.at("names.txt"),
            "--data",
            root,
            "--method",
            "naive",
        ]
        for name in ("conv_pool", "conv_on_one"):
            self.forget(name, *words)
            run = json.load(open(self.at("new.onnx.receipt.json")))["run"]
            self.assertEqual(run["labels"], "classes matched by name")
            self.assertEqual(run["accuracy_before"], 1.0)
            self.assertEqual(run["inputs"], "4 x 4 colour, pixels x 0.00392157, NCHW")

        for more in (
            ["--scale", "nan"],
            ["--scale", "inf"],
            ["--mean", "nan"],
            ["--mean", "0,-inf,0"],
            ["--std", "nan"],
            ["--std", 0],
        ):
            self.assertIn(more[0], self.forget("conv_pool", *words, *more, code=2))
        # What is read is never written to, nor is anything beside it.
        before = {
            n: open(os.path.join(root, forget, n), "rb").read()
            for n in os.listdir(os.path.join(root, forget))
        }
        image = os.path.join(root, forget, sorted(before)[0])
        shutil.copy(image, self.at("linked.ppm"))
        linked = os.path.join(root, forget, "linked.ppm")
        os.symlink(self.at("linked.ppm"), linked)
        for out in (image, linked, os.path.join(root, "new.onnx"), self.at("linked.ppm")):
            for call in (
                ["forget", self.model("conv_pool"), *words, "-o", out],
                [
                    "forget",
                    self.model("conv_pool"),
                    *words,
                    "-o",
                    self.at("other.onnx"),
                    "--report",
                    out,
                ],
                ["means", self.model("conv_pool"), *words[2:6], "-o", out],
            ):
                code, _, stderr = oubli(*call, "--force")
                self.assertEqual(code, 2, (call, stderr))
                self.assertRegex(stderr, "is in the folder|is the input")
        os.remove(linked)
        self.assertEqual(
            {
                n: open(os.path.join(root, forget, n), "rb").read()
                for n in os.listdir(os.path.join(root, forget))
            },
            before,
        )

    def peak_memory(self, *words):
        """Peak resident bytes of one run, as the kernel counted them. A small process starts it: a
        child begins with the peak of its parent, and this one holds images."""
        code = (
            "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
            "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL); "
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        # The address sanitizer, in builds that have it, would keep what was freed.
        keep_nothing = {
            **os.environ,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
            + ":quarantine_size_mb=0:thread_local_quarantine_size_kb=0",
        }
        done = subprocess.run(
            ["/usr/bin/python3", "-c", code, OUBLI, *map(str, words)],
            check=True,
            capture_output=True,
            text=True,
            env=keep_nothing,
        )
        return int(done.stdout) * 1024

    @needs_runtime
    def test_memory_does_not_grow_with_the_number_of_images(self):
        """300 and 2400 images of 96 x 96: the pixels that the second run reads in excess, 58 MB, or
        232 MB as floats, do not stay in memory. 16 MB of growth are allowed: what is read of a
        mapped array before its pages are given back.
        """
        rng = np.random.default_rng(11)
        few, many, side = 300, 2400, 96
        noise = 0.3 * rng.standard_normal((3, 12))
        w, b = (np.eye(3).repeat(4, axis=1) + noise - noise.mean(axis=1, keepdims=True)).astype(
            np.float32
        ), np.zeros(3, np.float32)
        node = helper.make_node
        steps = [
            node(
                "AveragePool", ["x"], ["q"], kernel_shape=[side // 2] * 2, strides=[side // 2] * 2
            ),
            node("Flatten", ["q"], ["f"]),
            node("Gemm", ["f", "W", "b"], ["y"], transB=1),
        ]
        graph = helper.make_graph(
            steps,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, side, side])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b))],
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
            self.at("large.onnx"),
        )
        images = pictures.solid_blocks(rng, many, side)
        y = (
            images[:, :: side // 2, :: side // 2].transpose(0, 3, 1, 2).reshape(-1, 12)
            / 255.0
            @ w.T.astype(np.float64)
        ).argmax(1)
        for count in (few, many):
            np.savez(self.at("many_%d.npz" % count), x=images[:count], y=y[:count])
            np.savez_compressed(
                self.at("many_%d.packed.npz" % count), x=images[:count], y=y[:count]
            )
            for i in range(count):
                folder = os.path.join(self.at("many_%d" % count), "abc"[y[i]])
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "%05d.ppm" % i), "wb") as file:
                    file.write(b"P6\n%d %d\n255\n" % (side, side) + images[i].tobytes())
        for suffix in ("", ".npz", ".packed.npz"):
            peaks = [
                self.peak_memory(
                    "forget",
                    self.model("large"),
                    "--class",
                    1,
                    "--method",
                    "naive",
                    "--ignore-accuracy",
                    "--data",
                    self.at("many_%d%s" % (count, suffix)),
                    "-o",
                    self.at("new.onnx"),
                    "--force",
                )
                for count in (few, many)
            ]
            print(
                "peak memory, %d and %d images of %d x %d (%s): %.1f and %.1f MB"
                % (few, many, side, side, suffix or "folder", peaks[0] / 1e6, peaks[1] / 1e6)
            )
            self.assertLess(peaks[1] - peaks[0], 16e6, suffix)

    @needs_runtime
    def test_image_formats_layouts_and_input_types(self):
        """PNG, BMP and JPEG folders into models that take float, half, byte and integer inputs,
        NCHW and NHWC. The head reads the mean colour of each quarter of the image; only clear cases
        are used, since JPEG's colours are off by one or two."""
        rng = np.random.default_rng(8)
        # Class j is for images with much of colour j.
        noise = 0.3 * rng.standard_normal((3, 12))
        w, b = (np.eye(3).repeat(4, axis=1) + noise - noise.mean(axis=1, keepdims=True)).astype(
            np.float32
        ), np.zeros(3, np.float32)
        pool = pictures.solid_blocks(rng, 400, 16)
        logits = (
            pool[:, ::8, ::8].transpose(0, 3, 1, 2).reshape(-1, 12) / 255.0 @ w.T.astype(np.float64)
        )
        top = np.sort(logits, axis=1)
        clear = np.flatnonzero(top[:, 2] - top[:, 1] > 0.2)[:60]
        pool, y = pool[clear], logits[clear].argmax(1)
        self.assertGreaterEqual(np.bincount(y, minlength=3).min(), 5)
        formats = {"png": pictures.png, "bmp": pictures.bmp, "jpg": pictures.jpeg}
        for extension, encode in formats.items():
            for i, (image, label) in enumerate(zip(pool, y)):
                folder = os.path.join(self.at("as_" + extension), "abc"[label])
                os.makedirs(folder, exist_ok=True)
                with open(os.path.join(folder, "%03d.%s" % (i, extension)), "wb") as file:
                    file.write(encode(image))
        node = helper.make_node
        inputs = {
            "f32": (TensorProto.FLOAT, 0, 1),
            "f16": (TensorProto.FLOAT16, 0, 1),
            "u8": (TensorProto.UINT8, 0, 255),
            "i32": (TensorProto.INT32, 0, 255),
            "i8": (TensorProto.INT8, 128, 255),
        }
        for kind, (number, shift, scale) in inputs.items():
            for last in (False, True):
                steps = [
                    node("Cast", ["x"], ["xf"], to=TensorProto.FLOAT),
                    node("Add", ["xf", "shift"], ["xs"]),
                    node("Div", ["xs", "scale"], ["x1"]),
                    node("Transpose", ["x1"], ["xc"], perm=[0, 3, 1, 2] if last else [0, 1, 2, 3]),
                    node("AveragePool", ["xc"], ["q"], kernel_shape=[8, 8], strides=[8, 8]),
                    node("Flatten", ["q"], ["f"]),
                    node("Gemm", ["f", "W", "b"], ["y"], transB=1),
                ]
                graph = helper.make_graph(
                    steps,
                    "g",
                    [
                        helper.make_tensor_value_info(
                            "x", number, ["n", 16, 16, 3] if last else ["n", 3, 16, 16]
                        )
                    ],
                    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
                    [
                        numpy_helper.from_array(a, n)
                        for n, a in (
                            ("W", w),
                            ("b", b),
                            ("shift", np.float32(shift)),
                            ("scale", np.float32(scale)),
                        )
                    ],
                )
                onnx.save(
                    helper.make_model(
                        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
                    ),
                    self.at("colours.onnx"),
                )
                for extension in formats:
                    about = (kind, last, extension)
                    self.forget(
                        "colours",
                        "--class",
                        1,
                        "--method",
                        "naive",
                        "--data",
                        self.at("as_" + extension),
                        *(["--mean", shift] if shift else []),
                    )
                    run = json.load(open(self.at("new.onnx.receipt.json")))["run"]
                    self.assertEqual(
                        run["labels"],
                        "classes matched by order (no name of the data is a name of the model)",
                        about,
                    )
                    self.assertEqual(run["accuracy_before"], 1.0, about)
                    self.assertEqual(run["new_model"]["kept_classes_accuracy_after"], 1.0, about)
                    self.assertIn("NHWC" if last else "NCHW", run["inputs"], about)

    @needs_runtime
    def test_verify_makes_inputs_as_the_receipt_says(self):
        """A model of images of any size and layout: nothing about its inputs follows from the
        file."""
        rng = np.random.default_rng(9)
        noise = 0.3 * rng.standard_normal((3, 3))
        w, b = (np.eye(3) * 3 + noise).astype(np.float32), (rng.standard_normal(3) * 0.1).astype(
            np.float32
        )
        images = pictures.solid_blocks(rng, 300, 8)
        colours = (
            images.reshape(-1, 64, 3).mean(axis=1) / 255 - 0.5
        ) / 0.25  # what --mean and --std make of them
        y = (colours @ w.T.astype(np.float64) + b).argmax(1)
        for image, label, i in zip(images, y, range(len(y))):
            folder = os.path.join(self.at("shifted"), "abc"[label])
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "%03d.png" % i), "wb") as file:
                file.write(pictures.png(image))
        node = helper.make_node
        steps = [
            node("ReduceMean", ["x"], ["f"], axes=[1, 2], keepdims=0),
            node("Gemm", ["f", "W", "b"], ["y"], transB=1),
        ]
        graph = helper.make_graph(
            steps,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "h", "w", "c"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(a, n) for n, a in (("W", w), ("b", b))],
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
            self.at("any.onnx"),
        )
        data = ["--data", self.at("shifted")]
        how = ["--mean", 0.5, "--std", 0.25, "--layout", "nhwc", "--size", "8x8", "--colour"]
        self.forget("any", "--class", 1, *data, *how)
        receipt = json.load(open(self.at("new.onnx.receipt.json")))
        self.assertEqual(
            receipt["run"]["preparation"],
            {
                "scale": 1 / 255,
                "mean": [0.5] * 3,
                "std": [0.25] * 3,
                "layout": "nhwc",
                "size": [8, 8],
                "colour": True,
            },
        )
        anew = "the new head, computed anew"
        self.assertEqual(self.verify("any", *data)[anew], ("passed", "is the same bit for bit"))
        self.assertEqual(
            self.verify("any", *data, *how)[anew], ("passed", "is the same bit for bit")
        )
        # A receipt of an earlier version says it in words only: then the command line must.
        del receipt["run"]["preparation"]
        with open(self.at("new.onnx.receipt.json"), "w") as file:
            json.dump(receipt, file)
        self.assertEqual(
            self.verify("any", *data, *how)[anew], ("passed", "is the same bit for bit")
        )
        state, detail = self.verify("any", *data, *how[4:], code=5)[anew]
        self.assertIn(
            "the receipt says '8 x 8 colour, pixels x 0.00392157 - [0.5, 0.5, 0.5] / [0.25", detail
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
