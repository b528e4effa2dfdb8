"""torch_layouts_test.py OUBLI: views and storages, archives, names, and files that mean harm.

PyTorch reads the results. Exit 77 (skipped) where it is not installed.
"""

import subprocess
import sys
import zipfile

import checks
import numpy as np
from checks import Evil, canary_in, run
from torch_nets import C, K, KEEP, P, Net, forget, others_are_kept, same, torch


def views(folder):
    """Flat buffers, transposed and sliced views, shared and tied tensors, 1 x 1 convolutions."""
    W, b, A = torch.randn(K, P), torch.randn(K), torch.randn(P, 6)
    flat = torch.cat([A.flatten(), W.flatten(), b, torch.ones(3)])
    n = A.numel()
    sd = {
        "a": flat[:n].view(P, 6),
        "fc.weight": flat[n : n + K * P].view(K, P),
        "fc.bias": flat[n + K * P : n + K * P + K],
        "rest": flat[-3:],
    }
    torch.save(sd, folder / "flat.pth")
    new = forget(folder / "flat.pth", folder / "flat-new.pth", "--method", "naive")
    others_are_kept(sd, new)
    assert same(new["fc.weight"], W[KEEP]) and same(new["fc.bias"], b[KEEP])
    storage = torch.tensor(new["a"].storage().tolist())  # all of it: the freed rows are zeros
    assert storage.numel() == flat.numel()
    assert storage[n + 4 * P : n + 5 * P].abs().sum() == 0 and storage[n + K * P + 4] == 0

    turned = torch.randn(P, K).t()
    torch.save({"fc.weight": turned, "fc.bias": b}, folder / "turned.pth")
    new = forget(folder / "turned.pth", folder / "turned-new.pth", "--method", "naive")
    assert same(new["fc.weight"].contiguous(), turned[KEEP].contiguous())
    assert torch.tensor(new["fc.weight"].storage().tolist()).view(P, K)[:, 4].abs().sum() == 0

    big = torch.randn(9, P)
    torch.save({"fc.weight": big[2 : 2 + K], "fc.bias": b}, folder / "slice.pth")
    new = forget(folder / "slice.pth", folder / "slice-new.pth", "--method", "naive")
    assert same(new["fc.weight"], big[2 : 2 + K][KEEP])

    torch.save({"fc.weight": W, "fc.bias": b, "tied": W, "view": W.view(K, P)}, folder / "tied.pth")
    said = run(
        "forget",
        folder / "tied.pth",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "tied-new.pth",
    )
    assert "view" in said, said
    new = torch.load(folder / "tied-new.pth")
    for name in ["fc.weight", "tied", "view"]:
        assert same(new[name], W[KEEP]), name

    torch.save({"fc.weight": W, "fc.bias": b, "part": W.flatten()[:12]}, folder / "overlap.pth")
    run(
        "forget",
        folder / "overlap.pth",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "x.pth",
        code=4,
        says="share a part of their numbers",
    )
    torch.save({"fc.weight": W, "fc.bias": torch.ones(1).expand(K)}, folder / "expanded.pth")
    run(
        "forget",
        folder / "expanded.pth",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "x.pth",
        code=4,
        says="share numbers",
    )

    conv = {
        "features.weight": torch.randn(8, 3, 3, 3),
        "classifier.weight": torch.randn(K, 8, 1, 1),
        "classifier.bias": b,
    }
    torch.save(conv, folder / "conv.pth")
    new = forget(
        folder / "conv.pth",
        folder / "conv-new.pth",
        "--method",
        "naive",
        "--weights",
        "classifier.weight",
    )
    assert same(new["classifier.weight"], conv["classifier.weight"][KEEP])


def choices(folder):
    """Which tensor is the head: asked for where there are several."""
    net = torch.nn.Sequential(torch.nn.Linear(6, P), torch.nn.ReLU(), torch.nn.Linear(P, K))
    torch.save(net.state_dict(), folder / "sequential.pth")
    said = run("inspect", folder / "sequential.pth", code=2, says="--weights")
    assert "0.weight (float32 [8, 6])" in said and "2.weight (float32 [5, 8])" in said, said
    new = forget(
        folder / "sequential.pth", folder / "s.pth", "--method", "naive", "--weights", "2.weight"
    )
    assert new["2.weight"].shape == (K - 1, P)
    torch.save(
        {"model": {"fc.weight": torch.randn(K, P)}, "ema": {"fc.weight": torch.randn(K, P)}},
        folder / "e.pth",
    )
    run("inspect", folder / "e.pth", "--weights", "fc.weight", says="model.fc.weight")
    run("inspect", folder / "e.pth", "--weights", "ema.fc.weight", says="ema.fc.weight")
    torch.save(
        {"fc.weight_g": torch.ones(K, 1), "fc.weight_v": torch.randn(K, P)}, folder / "norm.pth"
    )
    run(
        "inspect",
        folder / "norm.pth",
        "--weights",
        "fc.weight_v",
        code=4,
        says="remove_weight_norm",
    )
    twice = {"fc.weight": torch.randn(K, P), "fc": {"weight": torch.randn(K, P)}}
    torch.save(twice, folder / "twice.pth")
    run("inspect", folder / "twice.pth", "--weights", "fc.weight", code=4, says="two tensors")
    tied = torch.randn(K, P)
    settings = {"hyper_parameters": {"num_classes": K}, "fc.weight": tied, "other": tied}
    torch.save(settings, folder / "settings.pth")
    said = run("inspect", folder / "settings.pth", says="num_classes")
    assert "other" in said and "by another name" in said, said
    torch.save({"x": 1}, folder / "none.pth")
    run("inspect", folder / "none.pth", code=4)
    scripted = torch.jit.script(torch.nn.Linear(3, 3))
    scripted.save(str(folder / "script.pt"))
    run("inspect", folder / "script.pt", code=4, says="torch.jit.load")


def serialization_id(folder):
    """The layout of later versions: byteorder, and an id that folds all check sums."""
    net = Net()
    torch.save(net.state_dict(), folder / "later.pth")
    entries = zipfile.ZipFile(folder / "later.pth")

    def fold(infos):
        s = 0
        for info in infos:
            s ^= (info.CRC + 0x9E3779B9 + (s << 6) + (s >> 2)) & (2**64 - 1)
        return s & (2**64 - 1)

    def rewrite(path, last):
        writer = torch._C.PyTorchFileWriter(str(path))
        for info in entries.infolist():
            name = info.filename.split("/", 1)[1]
            if name == "version":
                continue
            content = entries.read(info)
            writer.write_record(name, content, len(content))
            if name == "data.pkl":
                writer.write_record("byteorder", b"little", 6)
        if last:
            writer.write_record(".data/serialization_id", last, len(last))
        writer.write_end_of_file()

    (folder / "draft").mkdir()
    rewrite(folder / "draft" / "later.pth", b"")
    draft = [
        i
        for i in zipfile.ZipFile(folder / "draft" / "later.pth").infolist()
        if "version" not in i.filename
    ]
    rewrite(folder / "later.pth", b"12345678901234567890%020d" % fold(draft))
    forget(folder / "later.pth", folder / "later-new.pth", "--method", "naive")
    new = zipfile.ZipFile(folder / "later-new.pth")
    infos = new.infolist()
    place = [i.filename.endswith("serialization_id") for i in infos].index(True)
    assert new.read(infos[place]) == b"12345678901234567890%020d" % fold(infos[:place])
    old = zipfile.ZipFile(folder / "later.pth")
    assert new.read(infos[place]) != old.read(infos[place].filename)
    assert [i.filename for i in infos] == [i.filename for i in old.infolist()]
    for info in infos:  # data at multiples of 64
        with open(folder / "later-new.pth", "rb") as file:
            file.seek(info.header_offset + 26)
            name, extra = np.frombuffer(file.read(4), "<u2")
            assert (info.header_offset + 30 + int(name) + int(extra)) % 64 == 0


def hostile(folder):
    canary = canary_in(folder)
    W, b = torch.randn(K, P), torch.randn(K)
    torch.save({"fc.weight": W, "fc.bias": b, "evil": Evil()}, folder / "evil.pth")
    assert not canary.exists()
    run("inspect", folder / "evil.pth", says="loading this file in Python runs code: posix.system")
    run(
        "forget",
        folder / "evil.pth",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "evil-new.pth",
    )
    assert not canary.exists(), "code of a file was run"
    torch.load(folder / "evil-new.pth")
    assert canary.exists()  # it can sing

    def repack(name, change, more=()):
        with zipfile.ZipFile(folder / "good.pth") as good, zipfile.ZipFile(
            folder / name, "w"
        ) as bad:
            for info in good.infolist():
                content = change(info.filename, good.read(info))
                if content is not None:
                    bad.writestr(info.filename, content)
            for entry, content in more:
                bad.writestr(entry, content)

    torch.save({"fc.weight": W, "fc.bias": b}, folder / "good.pth")
    repack("short.pth", lambda name, content: content[:-8] if name.endswith("data/0") else content)
    run("inspect", folder / "short.pth", code=3, says="storage 0 has 152 bytes")
    repack("missing.pth", lambda name, content: None if name.endswith("data/1") else content)
    run("inspect", folder / "missing.pth", code=3, says="not in the file")
    repack("outside.pth", lambda name, content: content, [("../evil", b"x")])
    run("inspect", folder / "outside.pth", code=3, says="is not below good/")
    repack("plain.pth", lambda name, content: content)  # another writer's zip is taken
    assert same(
        forget(folder / "plain.pth", folder / "plain-new.pth", "--method", "naive")["fc.weight"],
        W[KEEP],
    )
    bytes_ = (folder / "good.pth").read_bytes()
    (folder / "cut.pth").write_bytes(bytes_[:-40])
    run("inspect", folder / "cut.pth", code=3)
    at = bytes_.index(W.numpy().tobytes())
    damaged = bytearray(bytes_)
    damaged[at] ^= 1
    (folder / "crc.pth").write_bytes(damaged)
    run("inspect", folder / "crc.pth", code=3, says="check sum")
    for name, stream in {
        "deep": b"\x80\x02" + b"]" * 2_000_000 + b"a" * 1_999_999 + b".",
        "bomb": b"\x80\x02]q\x00"
        + b"".join(b"](" + bytes([104, i, 104, i]) + b"eq" + bytes([i + 1]) for i in range(250))
        + b".",
        "claims": b"\x80\x02X\xff\xff\xff\x7fabc.",
    }.items():
        repack(
            f"{name}.pth", lambda entry, content: stream if entry.endswith("data.pkl") else content
        )
        run("inspect", folder / f"{name}.pth", code=3 if name == "claims" else 4)


def streaming(folder):
    """A file of 200 MB in less memory than half of it."""
    sd = {f"layer{i}.weight": torch.full((256, 1024, 8, 1), float(i)) for i in range(24)}
    sd.update({"fc.weight": torch.randn(K, P), "fc.bias": torch.randn(K)})
    torch.save(sd, folder / "large.pth")
    del sd
    words = [checks.PROGRAM, "forget", str(folder / "large.pth"), "--class", str(C)]
    words += ["--method", "naive", "-o", str(folder / "large-new.pth")]
    program = f"""
import resource, subprocess
subprocess.run({words!r}, check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    peak = int(
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        ).stdout
    )
    assert peak < 100 * 1024, f"{peak} kB"
    print(f"streaming: {(folder / 'large.pth').stat().st_size >> 20} MB in {peak >> 10} MB")
    (folder / "large.pth").unlink()


if __name__ == "__main__":
    checks.run_parts([views, choices, serialization_id, hostile, streaming])
