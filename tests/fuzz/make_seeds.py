"""make_seeds.py FOLDER: small valid files for each fuzz target to start from (ONNX has its own)."""
import base64, gzip, hashlib, io, json, pathlib, struct, sys, zlib
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

root = pathlib.Path(sys.argv[1])


def save(target, name, data):
    folder = root / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, **options)
    return out.getvalue()


def npz(write, **arrays):
    out = io.BytesIO()
    write(out, **arrays)
    return out.getvalue()


W, b = np.arange(6, dtype="f4").reshape(3, 2), np.ones(3, "f4")
save("npy", "f4", npy(W))
save("npy", "fortran", npy(np.asfortranarray(W.astype("f8"))))
save("npy", "v2", npy(np.arange(3), version=(2, 0)))
save("npz", "stored", npz(np.savez, W=W, b=b))
save("npz", "deflated", npz(np.savez_compressed, W=W, b=b))
about = json.dumps(
    dict(
        format="oubli-means",
        version=1,
        space="features",
        head_sha256="",
        class_names=["a", "b", "c"],
    )
)
import zipfile

means = io.BytesIO()
with zipfile.ZipFile(means, "w") as z:
    z.writestr("about.json", about)
    for name, array in dict(
        means=W.astype("f8"), counts=np.ones(3, "u8"), scatter=np.ones(3)
    ).items():
        z.writestr(name + ".npy", npy(array))
save("npz", "means", means.getvalue())

header = json.dumps(
    {
        "__metadata__": {"format": "pt"},
        "fc.weight": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]},
        "fc.bias": {"dtype": "F32", "shape": [3], "data_offsets": [24, 36]},
    }
).encode()
save("safetensors", "head", struct.pack("<Q", len(header)) + header + W.tobytes() + b.tobytes())


images = struct.pack(">IIII", 0x803, 2, 2, 2) + bytes(range(8))
labels = struct.pack(">II", 0x801, 2) + bytes([0, 1])
save("idx", "plain", bytes([0]) + struct.pack("<H", len(images)) + images + labels)
zipped = [gzip.compress(part, mtime=0) for part in (images, labels)]
save("idx", "gz", bytes([1]) + struct.pack("<H", len(zipped[0])) + zipped[0] + zipped[1])
save("cifar", "two", b"".join(bytes([j]) + bytes(3072) for j in (0, 9)))
save("pgm", "p5", b"P5\n# made\n2 3 255\n" + bytes(6))


def png(width, height, kind, rows, depth=8, interlaced=0, **chunks):
    def chunk(name, data):
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced))
        + b"".join(chunk(name.encode(), data) for name, data in chunks.items())
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


save("image", "grey.png", png(2, 2, 0, b"\0\1\2\0\3\4"))
save("image", "colour.png", png(2, 1, 2, b"\0" + bytes(6)))
save("image", "filters.png", png(2, 5, 2, b"".join(bytes([f]) + bytes(range(6)) for f in range(5))))
save(
    "image", "palette.png", png(3, 2, 3, b"\0\x1b\0\x1b", 2, PLTE=bytes(range(12)), tRNS=b"\0\x80")
)
save("image", "deep.png", png(1, 2, 6, (b"\0" + bytes(range(8))) * 2, 16))
save(
    "image",
    "interlaced.png",
    png(3, 3, 0, b"\0\1\0\2\0\3\4\0\5\0\6\0\7\x08\x09", 8, 1, tRNS=b"\0\1"),
)
save("image", "p6", b"P6 2 1 255\n" + bytes(6))
save(
    "image",
    "bmp",
    b"BM"
    + struct.pack("<IHHIIiiHHIIiiII", 58, 0, 0, 54, 40, 1, 1, 1, 24, 0, 4, 0, 0, 0, 0)
    + bytes(4),
)
# The smallest baseline JPEG: 1 x 1, grey, one Huffman table pair.
save(
    "image",
    "jpeg",
    bytes.fromhex(
        "ffd8ffdb004300"
        + "01" * 64
        + "ffc0000b080001000101011100ffc40014000100000000000000000000000000000009"
        "ffc40014100100000000000000000000000000000000ffda0008010100003f0054ffd9"
    ),
)

conv, relu, norm = (
    {"kind": "conv", "units": 2, "kernel": 3, "stride": 1, "padding": "same", "bias": False},
    {"kind": "relu"},
    {"kind": "batch_norm"},
)
save(
    "config",
    "network",
    json.dumps(
        {
            "format": "oubli-network",
            "version": 1,
            "name": "r",
            "input": [1, 4, 4],
            "layers": [
                conv,
                norm,
                relu,
                {"kind": "residual", "branch": [conv, norm], "shortcut": [dict(conv, kernel=1)]},
                {"kind": "max_pool", "kernel": 2, "stride": 2},
                {"kind": "dense", "units": 3},
                {"kind": "sigmoid"},
            ],
            "classes": 3,
        }
    ).encode(),
)
save(
    "config",
    "run",
    json.dumps(
        {
            "format": "oubli-run",
            "version": 1,
            "builds": ["0.1.0"],
            "config": {
                "each_class": 0,
                "epochs": 1,
                "experiment": "mnist",
                "forget": [0],
                "keep_models": False,
                "parts": [{"hidden": 50, "models": 2, "second": 2}],
                "samples": ["1", "all"],
                "seed": 1,
            },
        }
    ).encode(),
)
save("config", "names", b"cat\ndog\n")
file = {"role": "model", "name": "x", "bytes": 1, "sha256": "0" * 64}
# receipt/real is what `oubli forget old.npz --class 0 --means m.npz` wrote for the model of
# receipt_fuzz.cpp.
save(
    "receipt",
    "small",
    json.dumps(
        {
            "format": "oubli-receipt",
            "version": 1,
            "program": {"version": "", "compiler": "", "architecture": ""},
            "input": {"files": [file]},
            "output": {"files": [file]},
            "previous_receipt_sha256": None,
            "request": {"forget": [0], "method": "normalization", "solver": "auto", "seed": 0},
            "calibration": {"means_of": "features", "from": "means file", "means_files": [file]},
            "signature": {"algorithm": "Ed25519", "public_key": "0" * 64, "value": "0" * 128},
        }
    ).encode(),
)
config = json.dumps(
    {
        "format": "oubli-network",
        "version": 1,
        "input": [1, 4, 4],
        "layers": [{"kind": "dense", "units": "N"}],
        "classes": 3,
    }
)
for name, number in dict(fraction="2.5", far="1e30", negative="-1").items():
    save("config", name, config.replace('"N"', number).encode())


def figure(value):
    return {"value": value, "low": value - 0.01, "high": value + 0.01}


spread = {"mean": 0.25, "std": 0.05}
leak = {
    "observer": "logits",
    "attacks": [
        {"attack": "adaboost", "advantage": figure(0.4)},
        {"attack": "x", "advantage": {"value": None, "reason": "few"}},
    ],
    "worst": 0,
    "ks": figure(0.2),
    "ks_ones": figure(0.1),
}
audit = {
    "format": "oubli-audit",
    "version": 1,
    "models": {"seen": 7, "unseen": 8},
    "samples": 90,
    "classes": 2,
    "forgotten": [1],
    "class_names": ["a", "<b>"],
    "leaks": {
        "classes": [{"class": 1, "forgotten": True, "observers": [leak]}],
        "forgotten": [leak],
        "retained": [leak],
    },
    "floor": {"reason": "none"},
    "quality": [{"population": "seen", "accuracy": spread, "loss": spread}],
    "label_flips": {"all": spread},
    "probe": [{"class": 1, "seen": figure(0.9), "unseen": figure(0.9)}],
    "misclassification": [
        {"class": 1, "population": name, "shares": [spread]} for name in ("seen", "unseen")
    ],
}
save("report", "audit", json.dumps(audit).encode())
small = dict(audit, leaks={"classes": [], "forgotten": [leak], "retained": []})
save(
    "report",
    "results",
    json.dumps(
        {
            "format": "oubli-results",
            "version": 1,
            "experiment": "mnist",
            "class_names": ["a", "b"],
            "parts": [
                {
                    "hidden": 50,
                    "models": {"seen": 9, "unseen": 9},
                    "floor": small,
                    "methods": [
                        {"method": "naive", "samples": "all", "means_from": "test", "audit": small}
                    ],
                }
            ],
            "tables": [
                {
                    "title": "T",
                    "columns": ["method", "NN"],
                    "keys": 1,
                    "notes": ["n"],
                    "rows": [
                        {
                            "group": "unlearned",
                            "keys": ["naive"],
                            "cells": [
                                {
                                    "measure": "NN",
                                    "observer": name,
                                    "paper": 0.5,
                                    "ours": 0.25,
                                    "low": 0.2,
                                    "high": 0.3,
                                    "digits": 2,
                                }
                                for name in ("logits", "label")
                            ],
                        }
                    ],
                }
            ],
        }
    ).encode(),
)
save(
    "report",
    "inversion",
    json.dumps(
        {
            "format": "oubli-inversion",
            "version": 1,
            "data_set": "faces",
            "class_names": ["a", "b"],
            "caption": "c",
            "sheets": [],
            "likeness": [
                {"state": "naive", "target": "forgotten", "own": spread, "recognised": spread}
            ],
            "tables": [
                {
                    "title": "t",
                    "note": "",
                    "columns": [{"title": "a", "number": True}],
                    "rows": [["1"]],
                }
            ],
        }
    ).encode(),
)
save("report", "receipt", (root / "receipt" / "small").read_bytes())

# Evidence, signed with the key of RFC 8032, section 7.1, test 1, which the targets know.
KEY = Ed25519PrivateKey.from_private_bytes(
    bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
)
IN_TOTO = "application/vnd.in-toto+json"


PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
KEY_ID = hashlib.sha256(PEM).hexdigest()


def envelope(body, key_id=KEY_ID):
    body = json.dumps(body, separators=(",", ":")).encode()
    signed = b"DSSEv1 %d %s %d %s" % (len(IN_TOTO), IN_TOTO.encode(), len(body), body)
    encoded = {"payload": base64.b64encode(body).decode(), "payloadType": IN_TOTO}
    signature = base64.b64encode(KEY.sign(signed)).decode()
    return {**encoded, "signatures": [{"keyid": key_id, "sig": signature}]}


def statement(kind, predicate):
    subject = [{"name": "m", "digest": {"sha256": "a" * 64}}]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": kind,
        "predicate": predicate,
    }


test_result = statement(
    "https://in-toto.io/attestation/test-result/v0.1",
    {
        "result": "WARNED",
        "configuration": [{"digest": {"sha256": "b" * 64}}],
        "passedTests": ["p"],
        "warnedTests": ["w"],
        "failedTests": [],
    },
)
line = json.dumps(envelope(statement("urn:example:v1", {"a": [1]}), "")) + "\n"
save("envelope", "one", line.encode())
save("envelope", "two", (line + json.dumps(envelope(test_result)) + "\n").encode())
save("envelope", "pretty", json.dumps(envelope(test_result), indent=1).encode())
url_safe = envelope(statement("urn:example:v1", {"a": ["?>~"]}))
for part, name in ((url_safe, "payload"), (url_safe["signatures"][0], "sig")):
    part[name] = part[name].replace("+", "-").replace("/", "_")
save("envelope", "url-safe", json.dumps(url_safe).encode())
bundle = {
    "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
    "verificationMaterial": {"publicKey": {"hint": KEY_ID}, "tlogEntries": []},
    "dsseEnvelope": envelope(test_result),
}
save("bundle", "one", json.dumps(bundle).encode())
del bundle["verificationMaterial"]["tlogEntries"]
save("bundle", "no-log", json.dumps(bundle, indent=1).encode())

# Files of Keras and TensorFlow Lite, and Hugging Face's configurations: small ones of the makers in
# tests/formats.
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "formats"))
import h5py
import make_tflite as tflite

dense = lambda name, units, **more: {
    "class_name": "Dense",
    "config": dict(name=name, units=units, **more),
}
config = {"class_name": "Sequential", "config": {"layers": [dense("d", 3, activation="softmax")]}}
for libver in ("earliest", "latest"):
    with tempfile.NamedTemporaryFile(suffix=".h5") as out:
        with h5py.File(out.name, "w", libver=libver) as f:
            f.attrs["model_config"] = json.dumps(config).encode()
            weights = f.create_group("model_weights")
            weights.attrs["layer_names"] = [b"d"]
            weights.create_group("d").attrs["weight_names"] = [b"d/k", b"d/b"]
            weights["d"].create_dataset("d/k", data=W.T)
            weights["d"].create_dataset("d/b", data=b)
            f["optimizer_weights/m/d/k"] = W.T
        save("hdf5", libver, pathlib.Path(out.name).read_bytes())
    with tempfile.NamedTemporaryFile(suffix=".h5") as out:
        with h5py.File(out.name, "w", libver=libver) as f:
            for i in range(12):
                f["layers/dense_%d/vars/0" % i] = W.T[:, : 2 + i % 2]
        save("hdf5", "vars_" + libver, pathlib.Path(out.name).read_bytes())
save("tflite", "float", tflite.model(W, b))
save("tflite", "labels", tflite.model(W, b, labels=["ant", "bee", "cat"]))
save(
    "tflite",
    "int8",
    tflite.model(
        W.astype("i1"),
        b.astype("i4"),
        (tflite.SOFTMAX, tflite.DEQUANTIZE),
        tflite.INT8,
        [0.5, 0.25, 1],
        tflite.INT8,
    ),
)
save(
    "folder",
    "transformers",
    b'{"architectures": ["A"], "id2label": {"0": "ant", "1": "bee", "2": "cat"},'
    b' "label2id": {"ant": 0, "bee": 1, "cat": 2}, "num_labels": 3}',
)
save(
    "folder",
    "timm",
    b'{"num_classes": 3, "label_names": ["ant", "bee", "cat"], "label_descriptions":'
    b' {"ant": "a", "bee": "b", "cat": "c"}, "pretrained_cfg": {"num_classes": 3}}',
)
save("folder", "keras", json.dumps(config).encode())
save("folder", "index", b'{"metadata": {"total_size": 96}, "weight_map": {"a": "b"}}')
save(
    "folder", "inputs", b'{"do_normalize": true, "image_mean": [0.5], "image_std": [1], "size": 8}'
)
