"""Small example documents of every format a report reads, with a hostile class name in each."""
import json
import struct
import zlib

HOSTILE = "<script>document.title='owned'</script>"
NAMES = [
    "zero",
    "one",
    HOSTILE,
    "three & four",
    "a rather long name for a class, longer than its room",
]
ATTACKS = {"nearest-neighbours": 0.9, "forest": 1.0, "adaboost": 1.1, "logistic": 1.05}


def figure(value):
    return {"value": value, "low": value - 0.02, "high": value + 0.03}


def leaks(level):
    def observers(factor):
        out = []
        for observer, part in (("logits", 1.0), ("probabilities", 0.25), ("label", 0.05)):
            entry = {
                "observer": observer,
                "worst": 2,
                "attacks": [
                    {"attack": a, "advantage": figure(level * factor * part * f)}
                    for a, f in ATTACKS.items()
                ],
            }
            if observer == "label":
                missing = {"value": None, "reason": "not applicable to labels"}
                entry |= {"ks": missing, "ks_largest": missing, "ks_ones": missing}
            else:
                entry |= {
                    "ks": figure(level * factor * part / 3),
                    "ks_largest": figure(level * factor * part / 2),
                    "ks_ones": figure(level * factor * part / 2),
                }
            out.append(entry)
        return out

    return {
        "classes": [
            {
                "class": i,
                "forgotten": i == 0,
                "points_train": 100,
                "points_test": 50,
                "observers": observers(1 if i == 0 else 0.2),
            }
            for i in range(len(NAMES))
        ],
        "forgotten": observers(1),
        "retained": observers(0.2),
    }


def mean_std(mean, std):
    return {"mean": mean, "std": std}


def audit(level, floor=None):
    shares = [0.1, 0.2, 0.3, 0.4]
    return {
        "format": "oubli-audit",
        "version": 1,
        "models": {"seen": 10, "unseen": 10},
        "samples": 500,
        "classes": len(NAMES),
        "forgotten": [0],
        "class_names": NAMES,
        "options": {},
        "leaks": leaks(level),
        "floor": floor or {"reason": "no second batch was given"},
        "quality": [
            {"population": p, "accuracy": mean_std(0.97, 0.002), "loss": mean_std(0.1, 0.01)}
            for p in ("before", "seen", "unseen")
        ],
        "flips": {
            "all": mean_std(0.0, 0.0),
            "forgotten": mean_std(0.0, 0.0),
            "correct": mean_std(0.0, 0.0),
        },
        "misclassification": [
            {"class": 0, "population": p, "shares": [mean_std(s, 0.03) for s in shares]}
            for p in ("seen", "unseen")
        ],
        "probes": [
            {
                "class": 0,
                "seen": mean_std(0.99, 0.01),
                "unseen": mean_std(0.97, 0.01),
                "sentence": "The features still know the class.",
            }
        ],
    }


def sparse_audit():
    """An audit of few models, with every kind of figure missing and a warning."""
    document = audit(0.3)
    document["warnings"] = ["the floor is not comparable " + HOSTILE]
    missing = "no logits from before unlearning were given"
    for group in [document["leaks"]["forgotten"], document["leaks"]["retained"]] + [
        entry["observers"] for entry in document["leaks"]["classes"]
    ]:
        for leak in group:
            for attack in leak["attacks"]:
                attack["advantage"] = {
                    "value": attack["advantage"]["value"],
                    "interval_reason": "1 and 2 test models",
                }
            leak["attacks"][-1]["advantage"] = {"value": None, "reason": "did not converge"}
            if leak["observer"] == "probabilities":
                leak["ks_ones"] = {"value": None, "reason": "not shown"}
    document["quality"][0] = {
        "population": "before",
        "accuracy": None,
        "loss": None,
        "reason": missing,
    }
    document["flips"] = {"all": None, "forgotten": None, "correct": None, "reason": missing}
    document["probes"] = [
        {
            "class": 0,
            "seen": None,
            "unseen": None,
            "sentence": "",
            "seen_reason": "no features were given",
            "unseen_reason": "no features were given",
        }
    ]
    return document


def results():
    methods = [
        {"method": m, "audit": audit(level)}
        for m, level in (
            ("naive", 0.6),
            ("normalization", 0.35),
            ("randomization", 0.62),
            ("zeroing", 0.64),
            ("refit", 0.3),
        )
    ]
    for method in methods[1:4]:
        method |= {"samples": "all", "means_from": "test"}
    return {
        "format": "oubli-results",
        "version": 1,
        "experiment": "mnist",
        "data_set": "mnist",
        "architecture": "mlp",
        "seed": 1,
        "class_names": NAMES,
        "failed": [{"id": "mlp50-seen-003", "reason": "diverged <b>"}],
        "parts": [
            {
                "hidden": 50,
                "forgotten": [0],
                "models": {"seen": 10, "unseen": 10, "second": 10},
                "floor": audit(0.03),
                "methods": methods,
            }
        ],
        "each_class": [
            {
                "hidden": 50,
                "forgotten": [i],
                "models": {"seen": 10, "unseen": 10},
                "methods": [
                    {"method": "naive", "audit": audit(0.5 + 0.05 * i)},
                    {"method": "normalization", "audit": audit(0.3 + 0.03 * i)},
                ],
            }
            for i in range(len(NAMES))
        ],
        "tables": [
            {
                "title": "Classifier advantage",
                "published": "tab:MLP50",
                "number": "I",
                "place": "main text",
                "notes": ["A note."],
                "columns": ["method", "p", "s", "NN", "RF"],
                "keys": 3,
                "rows": [
                    {
                        "group": "unlearned",
                        "keys": ["naive", "50", "-"],
                        "cells": [
                            {
                                "measure": "NN",
                                "observer": "logits",
                                "paper": 0.593,
                                "ours": 0.571,
                                "low": 0.55,
                                "high": 0.59,
                                "floor": 0.01,
                                "digits": 3,
                            },
                            {
                                "measure": "RF",
                                "observer": "logits",
                                "paper": 0.609,
                                "reason": "not run",
                            },
                        ],
                    }
                ],
            }
        ],
    }


def png(width=120, height=80):
    """A grey gradient."""
    rows = b"".join(b"\0" + bytes(255 * x // width for x in range(width)) for _ in range(height))

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def inversion():
    return {
        "format": "oubli-inversion",
        "version": 1,
        "data_set": "faces",
        "caption": "What an attacker sees.",
        "sheets": [{"file": "sheet.png", "title": "Sheet", "description": "Rows are " + HOSTILE}],
        "class_names": NAMES,
        "likeness": [
            {
                "state": state,
                "target": "forgotten, ghost logit",
                "own": mean_std(0.2, 0.1),
                "recognised": mean_std(0.1, 0.1),
            }
            for state in ("naive", "retrained")
        ],
        "tables": [
            {
                "title": "Likeness",
                "note": "",
                "columns": [{"title": "state"}, {"title": "SSIM", "number": True}],
                "rows": [["before", "0.5"], [HOSTILE, "0.4"]],
            }
        ],
    }


def write_run(folder):
    (folder / "results.json").write_text(json.dumps(results()))
    (folder / "inversion.json").write_text(json.dumps(inversion()))
    (folder / "sheet.png").write_bytes(png())


def receipt():
    def files(name):
        return {
            "files": [{"role": "model", "name": name, "bytes": 10, "sha256": "ab" * 32}],
            "head": {
                "name": HOSTILE,
                "format": "onnx",
                "dtype": "float32",
                "classes": 5,
                "features": 50,
            },
        }

    return {
        "format": "oubli-receipt",
        "version": 1,
        "input": files("old.onnx"),
        "output": files("new.onnx"),
        "request": {"forget": [0], "method": "normalization", "solver": "auto", "seed": 0},
        "calibration": {"means_of": "features", "from": "data"},
        "solver": {"chosen": "paper", "reason": "well conditioned", "conditioning": 0.01},
        "classes": [
            {"old": i, "new": None if i == 0 else i - 1, "name": NAMES[i], "samples": 100}
            for i in range(len(NAMES))
        ],
        "leak_check": {
            "samples": 500,
            "label_flips_against_naive": 0,
            "rows": [
                {
                    "class": 0,
                    "samples": 100,
                    "observer": "logits",
                    "ghost_logit": {"naive": 0.89, "chosen": 0.53},
                    "linear_readout": {"naive": 0.97, "chosen": 0.947},
                },
                {
                    "class": 0,
                    "samples": 100,
                    "observer": "probabilities",
                    "linear_readout": {"naive": 0.94, "chosen": 0.94},
                },
                {
                    "class": 0,
                    "samples": 100,
                    "observer": "label",
                    "linear_readout": {"naive": 0.6, "chosen": 0.6},
                },
            ],
        },
        "not_checked": ["whether copies of the old model exist"],
        "warnings": ["a warning"],
        "limits": ["Whether this satisfies a law is for lawyers to say."],
        "self_check": {"vectors": 5, "largest_error": 1e-7, "error_over_bound": 0.2},
        "findings": [{"where": "metadata", "text": "mentions " + HOSTILE}],
    }
