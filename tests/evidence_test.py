"""evidence_test.py OUBLI: deletions that are signed, and checked without the program.

Both types of keys; openssl's command line by the script in docs/evidence.md; a second
implementation (evidence/check_evidence.py); sigstore's own client, from npm (skipped, with the
reason, where it cannot be had); the schemas; chains; several signers; what is refused.
"""
import base64
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

OUBLI = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECK = [sys.executable, ROOT / "tests/evidence/check_evidence.py"]
sys.path[:0] = [str(ROOT / "tests/evidence"), str(ROOT / "tests")]
import check_evidence
from node_packages import node_modules


def load(path):
    return json.loads(pathlib.Path(path).read_text())


class Evidence(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="oubli-evidence-")
        cls.folder = pathlib.Path(cls.temporary.name)
        rng = np.random.default_rng(0)
        weights = rng.normal(size=(6, 8)).astype("f4")
        labels = np.repeat(np.arange(6), 40)
        features = (weights[labels] + rng.normal(size=(240, 8))).astype("f4")
        np.savez(cls.folder / "old.npz", W=weights, b=np.zeros(6, "f4"))
        np.save(cls.folder / "f.npy", features)
        np.save(cls.folder / "y.npy", labels)
        cls.data = "--features f.npy --labels y.npy".split()
        for kind in ("ed25519", "ecdsa-p256"):
            cls.oubli("keygen", "--type", kind, "-o", kind)
            cls.oubli("forget", "old.npz", "--class", "2", *cls.data, "--sign", kind, "--bundle",
                      "-o", f"{kind}.npz")  # fmt: skip

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def run_program(cls, *words):
        return subprocess.run(
            [str(word) for word in words], cwd=cls.folder, capture_output=True, text=True
        )

    @classmethod
    def oubli(cls, *words, code=0, say=""):
        done = cls.run_program(OUBLI, *words)
        text = done.stdout + done.stderr
        assert done.returncode == code and say in text, f"{words}: {done.returncode}\n{text}"
        return text

    def verify(self, evidence, model, *more, code=0, say=""):
        return self.oubli("verify", evidence, "--model", model, *more, code=code, say=say)

    def test_the_program_itself(self):
        for kind in ("ed25519", "ecdsa-p256"):
            for evidence in (f"{kind}.npz.intoto.jsonl", f"{kind}.npz.sigstore.json"):
                self.verify(evidence, f"{kind}.npz", "--key", f"{kind}.pub",
                            "--original", "old.npz", *self.data, "--recompute",
                            say="passed    every file, made anew")  # fmt: skip
            self.verify(f"{kind}.npz.receipt.json", f"{kind}.npz", "--key", f"{kind}.pub",
                        say="passed    signature")  # fmt: skip

    def test_the_same_request_gives_the_same_bytes(self):
        for kind in ("ed25519", "ecdsa-p256"):
            before = {p: p.read_bytes() for p in self.folder.glob(f"{kind}.npz*")}
            self.assertEqual(len(before), 5)  # model, means, receipt, statements, bundle
            self.oubli("forget", "old.npz", "--class", "2", *self.data, "--sign", kind, "--bundle",
                       "-o", f"{kind}.npz", "--force")  # fmt: skip
            self.assertEqual(before, {p: p.read_bytes() for p in before})

    def test_openssl_alone(self):
        document = (ROOT / "docs/evidence.md").read_text()
        script = re.search(r"```sh\n(#!/bin/sh.*?)```", document, re.S)[1]
        (self.folder / "check.sh").write_text(script)
        for kind, other in (("ed25519", "ecdsa-p256"), ("ecdsa-p256", "ed25519")):
            evidence = f"{kind}.npz.intoto.jsonl"
            done = self.run_program("sh", "check.sh", evidence, f"{kind}.pub")
            self.assertEqual(done.returncode, 0, done.stderr)
            receipt = load(self.folder / f"{kind}.npz.receipt.json")
            self.assertEqual(json.loads(done.stdout)["predicate"]["receipt"], receipt)
            self.assertNotEqual(
                self.run_program("sh", "check.sh", evidence, f"{other}.pub").returncode, 0
            )
            envelope = load(self.folder / evidence)
            body = base64.b64decode(envelope["payload"]).replace(b"naive", b"Naive")
            body = body.replace(b'"normalization"', b'"naive"')
            envelope["payload"] = base64.b64encode(body).decode()
            (self.folder / "forged").write_text(json.dumps(envelope, separators=(",", ":")))
            done = self.run_program("sh", "check.sh", "forged", f"{kind}.pub")
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, "")

    def test_a_second_implementation(self):
        for kind, other in (("ed25519", "ecdsa-p256"), ("ecdsa-p256", "ed25519")):
            for evidence in (f"{kind}.npz.intoto.jsonl", f"{kind}.npz.sigstore.json"):
                done = self.run_program(*CHECK, evidence, f"{kind}.pub", "--about", f"{kind}.npz")
                self.assertEqual(done.returncode, 0, done.stderr)
                statement = json.loads(done.stdout)
                self.assertEqual(statement["predicateType"], "urn:oubli:class-deletion:v1")
                for refused in ([f"{other}.pub"], [f"{kind}.pub", "--about", "old.npz"],
                                [f"{kind}.pub", f"{kind}.pub", "--threshold", "2"]):  # fmt: skip
                    self.assertEqual(self.run_program(*CHECK, evidence, *refused).returncode, 1)

    def test_the_second_implementation_knows_the_published_vectors(self):
        document = load(ROOT / "tests/evidence/dsse_vectors.json")
        for vector in document["vectors"]:
            keys = [
                Ed25519PublicKey.from_public_bytes(bytes.fromhex(document["keys"][name]))
                for name in vector["trustedKeys"]
            ]
            envelope = vector["envelope"]
            signers = check_evidence.signers_of(envelope, keys)
            accepted = (
                len(signers) >= vector["threshold"]
                and envelope["payloadType"] in vector["supportedPayloadTypes"]
            )
            self.assertEqual(accepted, vector["expect"] == "accept", vector["id"])
            if accepted:
                self.assertEqual(check_evidence.signed_message(envelope).hex(), vector["pae"])

    def test_sigstore_client(self):
        def skip(why):
            raise unittest.SkipTest(f"{why}: sigstore's client reads no bundle")

        folder = node_modules(ROOT / "tests/evidence/node", "node-sigstore-verify-2.1.1", skip)
        os.environ["NODE_MODULES"] = folder
        client = ["node", ROOT / "tests/evidence/verify_bundle.js"]

        def verified(bundle, key):
            done = self.run_program(*client, bundle, f"{key}.pub")
            self.assertIn(done.returncode, (0, 1), done.stderr)
            return done.stdout if done.returncode == 0 else None

        for kind, other in (("ed25519", "ecdsa-p256"), ("ecdsa-p256", "ed25519")):
            bundle = load(self.folder / f"{kind}.npz.sigstore.json")
            payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).decode()
            self.assertEqual(verified(f"{kind}.npz.sigstore.json", kind), payload)
            self.assertIsNone(verified(f"{kind}.npz.sigstore.json", other))
            changed = payload.replace("class-deletion", "class-deletioN")
            self.assertNotEqual(changed, payload)
            bundle["dsseEnvelope"]["payload"] = base64.b64encode(changed.encode()).decode()
            (self.folder / "changed.json").write_text(json.dumps(bundle))
            self.assertIsNone(verified("changed.json", kind))

    def test_schemas(self):
        predicate = load(ROOT / "docs/schemas/class-deletion-v1.schema.json")
        bundle = load(ROOT / "tests/evidence/bundle.schema.json")
        for kind in ("ed25519", "ecdsa-p256"):
            envelope = load(self.folder / f"{kind}.npz.intoto.jsonl")
            statement = json.loads(base64.b64decode(envelope["payload"]))
            jsonschema.Draft7Validator(predicate).validate(statement["predicate"])
            document = load(self.folder / f"{kind}.npz.sigstore.json")
            jsonschema.Draft4Validator(bundle).validate(document)
            self.assertEqual(document["dsseEnvelope"], envelope)
            roles = [m["annotations"]["role"] for m in statement["predicate"]["materials"]]
            self.assertEqual(roles[0], "model")
            self.assertGreaterEqual(len(roles), 3)  # the model, features, labels
            for wrong in ({"materials": []}, {"receipt": {}}):
                with self.assertRaises(jsonschema.ValidationError):
                    jsonschema.Draft7Validator(predicate).validate(
                        {**statement["predicate"], **wrong}
                    )

    def test_a_chain_is_in_one_file(self):
        self.oubli("forget", "ed25519.npz", "--class", "0", "--means", "ed25519.npz.means.npz",
                   "--sign", "ecdsa-p256", "-o", "second.npz")  # fmt: skip
        lines = (self.folder / "second.npz.intoto.jsonl").read_text().splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn(lines[0] + "\n", (self.folder / "ed25519.npz.intoto.jsonl").read_text())
        both = ["--key", "ed25519.pub", "--key", "ecdsa-p256.pub"]
        evidence = "second.npz.intoto.jsonl"
        self.verify(evidence, "second.npz", *both,
                    say="passed    the chain of deletions: 2 deletions")  # fmt: skip
        self.verify(evidence, "ed25519.npz", *both, say="statement 1 of 2")
        # By the second signer's key alone, only his own statement counts.
        text = self.verify(evidence, "second.npz", "--key", "ecdsa-p256.pub")
        self.assertIn("not made  the chain of deletions", text)
        self.verify(evidence, "ed25519.npz", "--key", "ecdsa-p256.pub", code=5)
        self.verify(evidence, "old.npz", *both, code=5, say="no statement that counts")
        (self.folder / "turned").write_text("\n".join(reversed(lines)) + "\n")
        self.verify("turned", "second.npz", *both, say="2 deletions")
        (self.folder / "twice").write_text("\n".join([*lines, lines[1]]) + "\n")
        self.verify("twice", "second.npz", *both, code=5, say="2 statements say")

    def test_several_signers(self):
        alone, evidence = "ed25519.npz.intoto.jsonl", "both.intoto.jsonl"
        both = ["--key", "ed25519.pub", "--key", "ecdsa-p256.pub"]
        self.verify(alone, "ed25519.npz", *both, "--threshold", "2", code=5)
        mine = ["--model", "ed25519.npz", "--key", "ecdsa-p256", "-o"]
        self.oubli("sign", alone, *mine, alone, "--force", code=2)
        self.oubli("sign", alone, *mine, evidence, say="now by 2")
        self.verify(evidence, "ed25519.npz", *both, "--threshold", "2", say="by 2 of 2 given keys")
        done = self.run_program(*CHECK, evidence, *both[1::2], "--threshold", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.oubli("sign", evidence, *mine, "again", code=2, say="has not signed yet")
        self.oubli("sign", "ecdsa-p256.npz.intoto.jsonl", *mine, "again", code=2)
        self.verify(evidence, "ed25519.npz", *both, "--threshold", "3", code=2)
        self.verify(evidence, "ed25519.npz", "--threshold", "2", code=2)

    def audit(self, *more, code=0, say=""):
        files = "--seen seen.npy --unseen unseen.npz:logits --labels test.npy --class 2"
        options = "--attack logistic --directions 0 --bootstrap 100"
        return self.oubli("audit", *files.split(), *options.split(), *more, code=code, say=say)

    def test_an_audit_is_a_test_result(self):
        rng = np.random.default_rng(1)
        labels = np.repeat(np.arange(6), 20)
        logits = rng.normal(size=(2, 12, 120, 5)).astype("f4")
        kept = labels - (labels > 2)
        for one in logits.reshape(-1, 120, 5):
            one[labels != 2, kept[labels != 2]] += 4
        logits[0, :, labels == 2, 0] += 6  # no floor is needed to see this
        np.save(self.folder / "seen.npy", logits[0])
        np.savez(self.folder / "unseen.npz", logits=logits[1])
        np.save(self.folder / "test.npy", labels)
        model, evidence = "audited.npz", "audited.npz.audit.intoto.jsonl"
        (self.folder / model).write_bytes((self.folder / "ed25519.npz").read_bytes())
        signed = ["--attest", model, "--sign", "ecdsa-p256"]
        self.audit("--attest", model, code=2, say="go together")
        self.audit("--sign", "ecdsa-p256", code=2, say="go together")
        self.audit("--attest", "absent.npz", "--sign", "ecdsa-p256", code=6, say="absent.npz")
        self.audit("--attest", model, "--sign", "f.npy", code=3)
        self.assertFalse((self.folder / evidence).exists())
        self.audit("--fail-above", "0.1", *signed, code=5, say="told apart")

        done = self.run_program(*CHECK, evidence, "ecdsa-p256.pub", "--about", model)
        self.assertEqual(done.returncode, 0, done.stderr)
        predicate = json.loads(done.stdout)["predicate"]
        self.assertEqual(predicate["result"], "FAILED")
        self.assertIn("largest leak at most 0.1", predicate["failedTests"])
        digests = {c["name"]: c["digest"]["sha256"] for c in predicate["configuration"]}
        self.assertEqual(set(digests), {"seen.npy", "unseen.npz", "test.npy"})
        for name, digest in digests.items():
            file = (self.folder / name).read_bytes()
            self.assertEqual(digest, hashlib.sha256(file).hexdigest())
        self.assertEqual(predicate["details"]["limit"], 0.1)
        self.assertEqual(predicate["details"]["models"], {"seen": 12, "unseen": 12})

        self.audit(*signed, code=2, say="--force")
        before = (self.folder / evidence).read_bytes()
        self.audit("--fail-above", "0.1", *signed, "--force", code=5)
        self.assertEqual((self.folder / evidence).read_bytes(), before)
        # Beside the deletion, verify shows what it says; a forged one is not believed.
        deletion = (self.folder / "ed25519.npz.intoto.jsonl").read_bytes()
        (self.folder / "all.jsonl").write_bytes(deletion + before)
        both = ["--key", "ed25519.pub", "--key", "ecdsa-p256.pub"]
        self.verify("all.jsonl", model, *both, say="a test result about this model: says FAILED")
        text = self.verify("all.jsonl", model, "--key", "ed25519.pub")
        self.assertNotIn("a test result", text)

    def test_vectors_for_other_programs(self):
        folder = ROOT / "tests/evidence/cosign"
        for evidence in ("new.npz.sigstore.json", "new.npz.intoto.jsonl"):
            self.verify(folder / evidence, folder / "new.npz", "--key", folder / "team.key.pub",
                        say="passed    signature of the statement")  # fmt: skip
            done = self.run_program(*CHECK, folder / evidence, folder / "team.key.pub",
                                    "--about", folder / "new.npz")  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_refused(self):
        key = ["--key", "ed25519.pub"]
        good = load(self.folder / "ed25519.npz.intoto.jsonl")
        body = json.loads(base64.b64decode(good["payload"]))

        def refuse(envelope, code):
            text = envelope if isinstance(envelope, str) else json.dumps(envelope)
            (self.folder / "bad").write_text(text)
            self.verify("bad", "ed25519.npz", *key, code=code)

        body["predicate"]["receipt"]["request"]["forget"] = [1]
        payload = base64.b64encode(json.dumps(body, separators=(",", ":")).encode()).decode()
        refuse({**good, "payload": payload}, 5)
        refuse({**good, "payloadType": "application/vnd.in-toto+json; v=1"}, 5)
        refuse({**good, "signatures": []}, 3)
        refuse({**good, "more": 1}, 3)
        refuse(json.dumps(good) + json.dumps(good), 3)
        refuse(json.dumps(good)[:-1] + f', "payload": "{good["payload"]}"}}', 3)
        refuse({**good, "signatures": [{**good["signatures"][0], "keyid": "0" * 64}]}, 5)
        refuse({**good, "payload": good["payload"].rstrip("=") + "\n"}, 3)
        np.savez(self.folder / "other.npz", W=np.eye(5, 8, dtype="f4"), b=np.zeros(5, "f4"))
        self.verify("ed25519.npz.intoto.jsonl", "other.npz", *key, code=5)
        self.verify("ed25519.npz.intoto.jsonl", "ed25519.npz", "--key", "ecdsa-p256.pub", code=5)
        self.oubli("forget", "old.npz", "--class", "2", *self.data, "--attest", "-o", "n.npz",
                   code=2, say="--sign")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
