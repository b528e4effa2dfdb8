#!/usr/bin/python3
"""limits.py OUBLI [--measure]: small files take bounded time and memory. No file of at most 5 MB
takes more than 5 s or 20 times its size + 300 MB; what is doubled takes less than three times as
long. --measure prints a table instead; code -24 there: ended after 10 s."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import zipfile

MEASURE = "--measure" in sys.argv
if MEASURE:
    sys.argv.remove("--measure")

from adversary import B, Case, D, K, OUBLI, P, W, classifier, tensor

import numpy as np
from onnx import TensorProto, helper

SECONDS = 5
SLACK_MB = 300


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def with_nodes(more, initializers=(), outputs=(), infos=()):
    model = classifier()
    model.graph.node.extend(more)
    model.graph.initializer.extend(initializers)
    model.graph.output.extend(outputs)
    model.graph.value_info.extend(infos)
    return model


def nodes_and_initializers(n):
    """A chain of n Reshapes with a constant each, before the body."""
    chain = []
    before = "x"
    for i in range(n):
        chain.append(helper.make_node("Reshape", [before, "c%d" % i], ["v%d" % i]))
        before = "v%d" % i
    model = classifier()
    nodes = list(model.graph.node)
    nodes[0].input[0] = before
    del model.graph.node[:]
    model.graph.node.extend([*chain, *nodes])
    model.graph.initializer.extend(tensor("c%d" % i, np.array([-1, D])) for i in range(n))
    return model


def foreign_outputs(n):
    """n outputs that do not come from the logits and cannot be followed to a layer."""
    nodes = [helper.make_node("Sin", ["x"], ["s%d" % i]) for i in range(n)]
    return with_nodes(nodes, outputs=[value("s%d" % i, ["n", D]) for i in range(n)])


def identity_outputs(n):
    nodes = [helper.make_node("Identity", ["y"], ["o%d" % i]) for i in range(n)]
    return with_nodes(nodes, outputs=[value("o%d" % i, ["n", K]) for i in range(n)])


def dead_transposes(n):
    """Each of a matrix that takes half a megabyte."""
    large = np.random.default_rng(1).standard_normal((400, 300)).astype(np.float32)
    nodes = [helper.make_node("Transpose", ["large"], ["t%d" % i]) for i in range(n)]
    return with_nodes(nodes, [tensor("large", large)])


def fan_out(n):
    """n readers of the logits, each with a declared shape."""
    nodes = [helper.make_node("Relu", ["y"], ["r%d" % i]) for i in range(n)]
    return with_nodes(nodes, infos=[value("r%d" % i, ["n", K]) for i in range(n)])


def metadata(n):
    model = classifier()
    for i in range(n):
        model.metadata_props.add(key="key%d" % i, value='{"a": ["b%d", "c"]}' % i)
    return model


def branches(n):
    """n If nodes, each with a branch that reads a value of the graph."""
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["i"])], "b", [], [value("i", None)], []
    )
    yes = helper.make_node("Constant", [], ["yes"], value=tensor("", np.array(True)))
    nodes = [
        helper.make_node("If", ["yes"], ["b%d" % i], then_branch=branch, else_branch=branch)
        for i in range(n)
    ]
    return with_nodes([yes, *nodes])


def write_empty_fields(path, n):
    """Fields of the graph that hold nothing, as many as fit."""
    model = classifier().SerializeToString()
    graph_tag = b"\x3a"
    inner = classifier().graph.SerializeToString() + b"\x7a\x00" * n
    rest = classifier()
    rest.ClearField("graph")
    size, length = len(inner), b""
    while size >= 0x80:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    length += bytes([size])
    assert model
    with open(path, "wb") as file:
        file.write(rest.SerializeToString() + graph_tag + length + inner)


def write_text_entries(path, n):
    """A small archive of texts that compress well."""
    np.savez(path, W=W, b=B)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for i in range(n):
            archive.writestr("text%d.txt" % i, b"a" * 15_000_000)


def write_tensors(path, n):
    header, data = {}, b""
    for name, array in [("fc.weight", W), ("fc.bias", B)] + [
        ("t%d" % i, np.zeros(1, np.float32)) for i in range(n)
    ]:
        header[name] = {
            "dtype": "F32",
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + array.nbytes],
        }
        data += array.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)


def write_zip_entries(path, n):
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in [("W", W), ("b", B)] + [
            ("t%d" % i, np.zeros(1, np.float32)) for i in range(n)
        ]:
            with archive.open(name + ".npy", "w") as entry:
                np.lib.format.write_array(entry, array)


def run(folder, words, seconds=60, environment=None):
    """Exit code, seconds of processor time, peak MB, messages. @classes: --class for each line."""
    if words[-1] == "@classes":
        with open(os.path.join(folder, "classes")) as file:
            words = [*words[:-1], "--class", *file.read().split()]
    process = subprocess.Popen(
        [OUBLI, *map(str, words)],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds)),
    )
    output = []
    reader = threading.Thread(target=lambda: output.append(process.stdout.read()))
    reader.start()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    return (
        process.returncode,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss / 1024,
        output[0].decode(errors="replace"),
    )


NAIVE = "--class 1 --method naive --force -o".split()


def commands_for(name, *words):
    """Looked at, edited, and the edit verified; a refusal is an answer, too."""
    new = "n" + os.path.splitext(name)[1]
    return (
        ["inspect", name],
        ["forget", name, *NAIVE, new, *words],
        ["verify", new + ".receipt.json", "--model", new, "--original", name],
    )


ONNX_COMMANDS = commands_for("m.onnx")


def onnx_case(make, n):
    def write(folder, count):
        with open(os.path.join(folder, "m.onnx"), "wb") as file:
            file.write(make(count).SerializeToString())

    return write, n, ONNX_COMMANDS


def file_case(writer, name, n, *words):
    def write(folder, count):
        writer(os.path.join(folder, name), count)

    return write, n, commands_for(name, *words)


def names_file(folder):
    path = os.path.join(folder, "names.txt")
    with open(path, "w") as file:
        file.write("\n".join(["apple", "pear", "plum", "fig", "date"]))


def class_names_case(n):
    """A name that nearly matches everywhere."""

    def write(folder, count):
        model = classifier()
        names = ["x", "a" * count + "b", "y", "z", "w"]
        model.metadata_props.add(key="class_names", value=json.dumps(names))
        model.metadata_props.add(key="note", value="a" * 4 * count)
        with open(os.path.join(folder, "m.onnx"), "wb") as file:
            file.write(model.SerializeToString())

    return write, n, ONNX_COMMANDS


def write_words(path, n):
    """Texts as they stand, which are looked through for the forgotten name."""
    np.savez(path, W=W, b=B)
    with zipfile.ZipFile(path, "a") as archive:
        for i in range(n):
            archive.writestr("text%d.txt" % i, b"%41ppl\\u0041 pea " * 1000)


def text_entries_case(n, writer=write_text_entries):
    write, n, commands = file_case(writer, "m.npz", n, "--class-names", "names.txt")

    def write_both(folder, count):
        write(folder, count)
        names_file(folder)

    return write_both, n, commands


def means_case(classes, features, twins=False):
    """Means from data that fill about 5 MB."""

    def write(folder, count):
        rng = np.random.default_rng(0)
        k, p = (classes, count) if features is None else (count, features)
        weights = rng.standard_normal((k, p)).astype(np.float32)
        rows = rng.standard_normal((k, p)).astype(np.float32)
        if twins:
            rows[2] = rows[1]
        np.savez(os.path.join(folder, "m.npz"), W=weights, b=np.zeros(k, np.float32))
        np.savez(os.path.join(folder, "d.npz"), features=rows, labels=np.arange(k))

    commands = (
        ["means", "m.npz", "--data", "d.npz", "--ignore-accuracy", "-o", "means.npz", "--force"],
        "forget m.npz --means means.npz --class 1 --force -o n.npz".split(),
    )
    return write, features is None and 15000 or 200000, commands


def more_keys(text, n):
    """A JSON object with n keys more."""
    return text.rstrip()[:-1] + "".join(', "k%d": 0' % i for i in range(n)) + "}"


def receipt_keys_case(n):
    def write(folder, count):
        np.savez(os.path.join(folder, "m.npz"), W=W, b=B)
        code, _, _, text = run(folder, ["forget", "m.npz", *NAIVE, "n.npz"])
        assert code == 0, text
        with open(os.path.join(folder, "n.npz.receipt.json")) as file:
            receipt = more_keys(file.read(), count)
        with open(os.path.join(folder, "r.json"), "w") as file:
            file.write(receipt)

    commands = (
        ["verify", "r.json", "--model", "n.npz"],
        ["report", "r.json", "--force", "-o", "r.html"],
    )
    return write, n, commands


def means_keys_case(n):
    def write(folder, count):
        np.savez(os.path.join(folder, "m.npz"), W=W, b=B)
        np.savez(os.path.join(folder, "d.npz"), features=W, labels=np.arange(K))
        code, _, _, text = run(folder, "means m.npz --data d.npz --force -o made.npz".split())
        assert code == 0, text
        made = zipfile.ZipFile(os.path.join(folder, "made.npz"))
        with zipfile.ZipFile(os.path.join(folder, "means.npz"), "w") as archive:
            for entry in made.namelist():
                content = made.read(entry)
                if entry == "about.json":
                    content = more_keys(content.decode(), count)
                archive.writestr(entry, content)

    words = "forget m.npz --means means.npz --class 1 --force -o n.npz".split()
    return write, n, (words,)


CASES = {
    "nodes and initializers": onnx_case(nodes_and_initializers, 60000),
    "foreign outputs": onnx_case(foreign_outputs, 30000),
    "Identity outputs": onnx_case(identity_outputs, 40000),
    "dead Transposes": onnx_case(dead_transposes, 5000),
    "fan-out with value_info": onnx_case(fan_out, 30000),
    "metadata": onnx_case(metadata, 60000),
    "branches": onnx_case(branches, 20000),
    "class name aaa...b": class_names_case(900_000),
    "empty fields": file_case(write_empty_fields, "m.onnx", 2_400_000),
    "text entries": text_entries_case(300),
    "words": text_entries_case(270, write_words),
    "tensors of .safetensors": file_case(write_tensors, "m.safetensors", 40000),
    "entries of .npz": file_case(write_zip_entries, "m.npz", 20000),
    "keys of a receipt": receipt_keys_case(300_000),
    "keys of a means file": means_keys_case(300_000),
    "features, two equal means": means_case(20, None, twins=True),
    "classes": means_case(None, 2),
}


def size_of_inputs(folder):
    return sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)) / 1e6


def measure(cases):
    print("%-28s %8s %-8s %5s %9s %9s" % ("file", "MB", "command", "code", "seconds", "peak MB"))
    for name, (write, n, commands) in cases.items():
        with tempfile.TemporaryDirectory() as folder:
            write(folder, n)
            size = size_of_inputs(folder)
            for words in commands:
                code, seconds, peak, _ = run(folder, words, 2 * SECONDS)
                row = (name, size, words[0], code, seconds, peak)
                print("%-28s %8.1f %-8s %5d %9.2f %9.0f" % row)
                sys.stdout.flush()


class Limits(unittest.TestCase):
    """Promise: no file of at most 5 MB takes more than 5 s or 20 times its size + 300 MB."""


class Doubling(unittest.TestCase):
    """Promise: twice as much takes less than three times as long."""


# How the time of ONNX Runtime grows is not ours; a run of it ends after two seconds.
ALONE = {"OUBLI_ONNXRUNTIME": "/nonexistent/libonnxruntime.so"}


def add_cases(cases, bounded, growing=None):
    for name, (write, n, commands) in cases.items():

        def limits(self, write=write, n=n, commands=commands):
            with tempfile.TemporaryDirectory() as folder:
                write(folder, n)
                size = size_of_inputs(folder)
                for words in commands:
                    for attempt in range(3):  # another process may be in the way once
                        code, seconds, peak, text = run(folder, words, 4 * SECONDS)
                        if seconds < SECONDS:
                            break
                    if words[0] == "means":  # else the next command measures nothing
                        self.assertEqual(code, 0, text[-1000:])
                    # 6: there is no receipt to verify.
                    self.assertIn(code, (0, 2, 3, 4, 5, 6), text[-1000:])
                    self.assertLess(seconds, SECONDS, words)
                    self.assertLess(peak, 20 * size + SLACK_MB, words)

        def doubling(self, write=write, n=n, commands=commands):
            with tempfile.TemporaryDirectory() as once, tempfile.TemporaryDirectory() as twice:
                write(once, n // 4)
                write(twice, n // 2)
                for words in commands:
                    for attempt in range(3):  # another process may be in the way once
                        took = [
                            run(folder, words, environment=ALONE)[1] for folder in (once, twice)
                        ]
                        # What every run takes is no part of it; short times are mostly noise.
                        if took[1] < 3 * max(took[0], 0.15):
                            break
                    else:
                        self.fail("%s: %.2f s, then %.2f s" % (words, *took))

        plain = "".join(c if c.isalnum() else "_" for c in name)
        setattr(bounded, "test_" + plain, limits)
        if growing:
            setattr(growing, "test_" + plain, doubling)


class NoFiles(Case):
    """Promise: a pipe or a device as any input is refused at once."""

    def test_pipes_and_devices(self):
        os.mkfifo(self.at("pipe"))
        np.savez(self.at("head.npz"), W=W, b=B)
        np.save(self.at("f.npy"), np.zeros((5, P), np.float32))
        np.save(self.at("y.npy"), np.arange(5))
        for bad in ("pipe", "/dev/zero", "/dev/tty"):
            for words in (
                ["inspect", bad],
                ["forget", bad, "--class", 1, "--method", "naive", "-o", "n.npz"],
                ["forget", "head.npz", "--class", 1, "--means", bad, "-o", "n.npz"],
                ["means", "head.npz", "--features", bad, "--labels", "y.npy", "-o", "m.npz"],
                ["means", "head.npz", "--features", "f.npy", "--labels", bad, "-o", "m.npz"],
                ["forget", "head.npz", "--class", "a", "--class-names", bad, "--method", "naive"]
                + ["-o", "n.npz"],
                ["verify", bad, "--model", "head.npz"],
                ["audit", "--seen", bad, "--unseen", bad],
            ):
                before = time.monotonic()
                try:
                    done = subprocess.run(
                        [OUBLI, *map(str, words)],
                        cwd=self.folder,
                        capture_output=True,
                        timeout=20,
                        stdin=subprocess.DEVNULL,
                    )
                except subprocess.TimeoutExpired:
                    self.fail("%s does not end" % words)
                self.assertNotEqual(done.returncode, 0, words)
                self.assertLess(time.monotonic() - before, 10, words)


if __name__ == "__main__":
    if MEASURE:
        measure(CASES)
    else:
        add_cases(CASES, Limits, Doubling)
        unittest.main()
