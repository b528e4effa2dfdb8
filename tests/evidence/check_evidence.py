"""check_evidence.py FILE KEY.pub... [--threshold N] [--about FILE]: evidence, without oubli.

Reads NAME.intoto.jsonl or a sigstore bundle, checks its signatures with Debian's
python3-cryptography, and prints the statements that enough of the keys signed, one per line. Shares
no code with the program. Exit code 1 if there is none; with --about, if none is about that file.
"""
import argparse
import base64
import hashlib
import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import load_pem_public_key


def once(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a member is there twice")
    return dict(pairs)


def decode(text):
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)


def signed_by(key, signature, message):
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, message)
        elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1":
            key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
        else:
            raise ValueError("a key that is neither Ed25519 nor P-256")
        return True
    except InvalidSignature:
        return False


def envelopes(text):
    try:
        documents = [json.loads(text, object_pairs_hook=once)]
    except json.JSONDecodeError:
        documents = [json.loads(line, object_pairs_hook=once) for line in text.splitlines()]
    for document in documents:
        if document.get("mediaType") == "application/vnd.dev.sigstore.bundle.v0.3+json":
            document = document["dsseEnvelope"]
            assert len(document["signatures"]) == 1, "a bundle has one signature"
        yield document


def signed_message(envelope):
    """What is signed: DSSE's pre-authentication encoding."""
    kind, body = envelope["payloadType"].encode(), decode(envelope["payload"])
    return b" ".join([b"DSSEv1", b"%d" % len(kind), kind, b"%d" % len(body), body])


def signers_of(envelope, keys):
    message = signed_message(envelope)
    signatures = [decode(signature["sig"]) for signature in envelope["signatures"]]
    return [key for key in keys if any(signed_by(key, s, message) for s in signatures)]


def statement_of(envelope, keys, threshold):
    """The statement in it; None unless enough of the keys signed it."""
    if len(signers_of(envelope, keys)) < threshold:
        return None
    if envelope["payloadType"] != "application/vnd.in-toto+json":
        return None
    statement = json.loads(decode(envelope["payload"]), object_pairs_hook=once)
    return statement if statement["_type"] == "https://in-toto.io/Statement/v1" else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("evidence")
    parser.add_argument("keys", nargs="+")
    parser.add_argument("--threshold", type=int, default=1)
    parser.add_argument("--about")
    options = parser.parse_args()
    pems = {open(name, "rb").read() for name in options.keys}
    keys = [load_pem_public_key(pem) for pem in pems]
    text = open(options.evidence, encoding="utf-8").read()
    found = [statement_of(envelope, keys, options.threshold) for envelope in envelopes(text)]
    found = [statement for statement in found if statement]
    if options.about:
        digest = hashlib.sha256(open(options.about, "rb").read()).hexdigest()
        found = [s for s in found if any(a["digest"]["sha256"] == digest for a in s["subject"])]
    for statement in found:
        print(json.dumps(statement))
    sys.exit(0 if found else 1)


if __name__ == "__main__":
    main()
