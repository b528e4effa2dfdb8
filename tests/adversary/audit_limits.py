#!/usr/bin/python3
"""audit_limits.py OUBLI [--measure] [--long]: an audit of arrays that have 5 MB together takes at
most 5 s of processor time and 20 times their size + 300 MB, whatever their shape, with every attack
as every observer sees it; what is doubled takes less than three times as long. --measure prints a
table instead. --long: more shapes, which are not doubled."""
import json
import os
import sys
import unittest

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")

from adversary import Case
from limits import MEASURE, add_cases, measure, run

import numpy as np


def audit_case(n, shape, *words, features=None, skewed=False):
    """Two populations: shape(count) is networks, samples, retained and forgotten classes;
    features(count) are columns of one network each. Skewed: a class has nearly all samples."""

    def write(folder, count):
        rng = np.random.default_rng(0)
        networks, samples, kept, forgotten = shape(count)
        labels = np.arange(samples) % (kept + forgotten)
        if skewed:
            labels[2 * (kept + forgotten) :] = kept
        labels = labels.astype(np.int32)
        np.save(os.path.join(folder, "y.npy"), labels)
        for name in ("seen", "unseen"):
            logits = rng.standard_normal((networks, samples, kept)).astype(np.float32)
            known = np.flatnonzero(labels < kept)
            logits[:, known, labels[known]] += 4
            np.save(os.path.join(folder, name + ".npy"), logits)
            if features:
                columns = rng.standard_normal((1, samples, features(count)))
                np.save(os.path.join(folder, name + "-f.npy"), columns.astype(np.float32))
        with open(os.path.join(folder, "classes"), "w") as file:
            file.write("\n".join(str(c) for c in range(kept, kept + forgotten)))

    files = "--seen seen.npy --unseen unseen.npy --labels y.npy --ignore-accuracy --json".split()
    if features:
        files += ["--features", "seen-f.npy", "--unseen-features", "unseen-f.npy"]
    return write, n, (["audit", *files, *words, "@classes"],)


CASES = {
    "audit, networks": audit_case(31000, lambda n: (n, 10, 2, 1)),
    "audit, samples": audit_case(150_000, lambda n: (2, n, 2, 1)),
    "audit, forgotten classes": audit_case(400, lambda n: (150, 5 * n, 2, n)),
    "audit, retained classes": audit_case(300, lambda n: (2100 // n, n + 1, n, 1)),
    "audit, 550 classes": audit_case(550, lambda n: (1100 // n, n + 1, n, 1)),
    "audit, features": audit_case(5000, lambda n: (4, 60, 2, 2), features=lambda n: n),
}
# Those that tools/check-all measures besides.
LONG_CASES = {
    "audit, 10 classes": audit_case(10000, lambda n: (7, n, 9, 1)),
    "audit, 40 classes": audit_case(120, lambda n: (133, n, 39, 1)),
    "audit, 60 classes": audit_case(61, lambda n: (170, n, 60, 1)),
    "audit, 1000 networks": audit_case(312, lambda n: (1000, n, 2, 1)),
    "audit, 1000 networks of 25 classes": audit_case(26, lambda n: (1000, n, 24, 1)),
    "audit, one retained class": audit_case(150_000, lambda n: (4, n, 1, 1)),
    "audit, half of the classes": audit_case(390, lambda n: (780 // n, 2 * n, n, n)),
    "audit, nearly all of a class": audit_case(4100, lambda n: (10, n, 15, 1), skewed=True),
    "audit, 11 classes, nearly all": audit_case(5600, lambda n: (10, n, 11, 1), skewed=True),
    "audit, 20,000 forgotten classes": audit_case(20000, lambda n: (2, 7 * n, 2, n)),
    "audit, features of all classes": audit_case(
        790, lambda n: (4, n, 2, 100), features=lambda n: n
    ),
}


class AuditLimits(unittest.TestCase):
    """Promise: an audit of arrays of 5 MB takes at most 5 s and 20 times their size + 300 MB."""


class AuditDoubling(unittest.TestCase):
    """Promise: twice as much takes less than three times as long."""


class Sampled(Case):
    """Promise: what an audit leaves out of large arrays is said, --all takes it, and whoever
    vouches for every forgotten class has every one looked at."""

    def audit(self, *more):
        words = "--seen seen.npy --unseen unseen.npy --labels y.npy --ignore-accuracy --json"
        extra = "--attack logistic --directions 0 --bootstrap 0 --seed 7 @classes".split()
        code, _, _, text = run(self.folder, ["audit", *words.split(), *more, *extra])
        return code, text

    def test_forgotten_classes(self):
        write, n, _ = audit_case(40, lambda n: (6, 5 * n, 70, n))
        write(self.folder, n)
        code, text = self.audit()
        self.assertEqual(code, 0, text[-500:])
        result = json.loads(text[text.index("{") : text.rindex("}") + 1])
        kinds = [row["forgotten"] for row in result["leaks"]["classes"]]
        self.assertEqual((kinds.count(True), kinds.count(False)), (32, 64))
        self.assertEqual(len(result["forgotten"]), 40)
        (warning,) = [w for w in result["warnings"] if "--all" in w]
        for part in ("32 of 40 forgotten classes", "64 of 70 retained classes", "8 of 40"):
            self.assertIn(part, warning)
        code, text = self.audit("--all")
        self.assertEqual(code, 0, text[-500:])
        result = json.loads(text[text.index("{") : text.rindex("}") + 1])
        self.assertEqual(len(result["leaks"]["classes"]), 110)
        self.assertFalse([w for w in result["warnings"] if "--all" in w])
        code, text = self.audit("--fail-above", 0.5)
        self.assertEqual(code, 2, text[-500:])
        self.assertIn("32 of 40 forgotten classes", text)
        self.assertIn(self.audit("--fail-above", 0.5, "--all")[0], (0, 5, 9))


if __name__ == "__main__":
    cases = LONG_CASES if LONG else CASES
    if MEASURE:
        measure(cases)
    else:
        add_cases(cases, AuditLimits, None if LONG else AuditDoubling)
        unittest.main(defaultTest="AuditLimits" if LONG else None)
