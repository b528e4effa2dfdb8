"""torch_test.py OUBLI: models, checkpoints and modules of PyTorch; PyTorch reads the results.

The same request on the same head as an .npz is the reference for the new weights, bit for bit; for
naive deletion also what PyTorch itself saves after the rows were cut by hand, byte for byte.
Exit 77 (skipped) where PyTorch is not installed.
"""

import collections
import zipfile

import checks
import numpy as np
from checks import Head, run
from torch_nets import C, K, KEEP, P, Net, as_numpy, forget, others_are_kept, same, torch


def state_dicts(folder):
    """Every float type; naive equals PyTorch's own save, normalization the .npz."""
    for dtype in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
        net = Net().to(dtype)
        old = folder / "model.pth"
        torch.save(net.state_dict(), old)
        head = Head(
            folder / "npz", as_numpy(net.fc.weight.detach()), as_numpy(net.fc.bias.detach())
        )
        out = folder / f"naive-{dtype}.pth"
        new = forget(old, out, "--method", "naive")
        by_hand = net.state_dict()
        by_hand["fc.weight"] = by_hand["fc.weight"][KEEP].clone()
        by_hand["fc.bias"] = by_hand["fc.bias"][KEEP].clone()
        (folder / "hand").mkdir(exist_ok=True)
        torch.save(by_hand, folder / "hand" / "model.pth")
        assert (folder / "hand" / "model.pth").read_bytes() == out.read_bytes(), dtype
        new = forget(old, folder / f"normalized-{dtype}.pth", *head.data)
        others_are_kept(net.state_dict(), new)
        if dtype != torch.bfloat16:  # .npz has none
            W, b = head.forgotten(C, *head.data)
            assert same(new["fc.weight"], torch.from_numpy(W)), dtype
            assert same(new["fc.bias"], torch.from_numpy(b)), dtype
        smaller = Net(K - 1).to(dtype)
        smaller.load_state_dict(new, strict=True)
        try:  # the check can fail: a shape that is left at k
            smaller.load_state_dict(torch.load(old), strict=True)
            raise AssertionError("a head of k rows was taken")
        except RuntimeError as error:
            assert "size mismatch" in str(error)
        run(
            "verify",
            f"{folder}/normalized-{dtype}.pth.receipt.json",
            "--model",
            f"{folder}/normalized-{dtype}.pth",
            "--original",
            old,
            *head.data,
            says="passed",
        )


def computes_what_the_filter_says(folder):
    net = Net().eval()
    torch.save(net.state_dict(), folder / "m.pth")
    head = Head(folder / "npz", net.fc.weight.detach().numpy(), net.fc.bias.detach().numpy())
    run("means", folder / "m.pth", *head.data, "-o", folder / "means.npz")
    new = forget(folder / "m.pth", folder / "n.pth", "--means", folder / "means.npz")
    smaller = Net(K - 1).eval()
    smaller.load_state_dict(new)
    x = torch.randn(50, 6)
    with torch.no_grad():
        f = net.features(x).double()
        W, b = head.forgotten(C, *head.data)
        want = f @ torch.from_numpy(W).double().T + torch.from_numpy(b).double()
        # Sums of 8 products in float32
        bound = 2**-24 * 10 * (f.abs() @ torch.from_numpy(abs(W)).double().T + abs(b).max())
        assert ((smaller(x).double() - want).abs() <= bound).all()
        old = torch.softmax(net(x)[:, KEEP], 1)
        assert torch.allclose(torch.softmax(smaller(x), 1), old, atol=1e-5)
    # A second request on the result: a chain, with the means that were left.
    run(
        "forget",
        folder / "n.pth",
        "--class",
        0,
        "--means",
        f"{folder}/n.pth.means.npz",
        "-o",
        folder / "o.pth",
        "--previous",
        f"{folder}/n.pth.receipt.json",
    )
    assert torch.load(folder / "o.pth")["fc.weight"].shape == (K - 2, P)
    run(
        "verify",
        f"{folder}/o.pth.receipt.json",
        "--model",
        folder / "o.pth",
        "--original",
        folder / "n.pth",
        "--means",
        f"{folder}/n.pth.means.npz",
        "--previous",
        f"{folder}/n.pth.receipt.json",
        says="passed",
    )


def heads_without_a_name(folder):
    """In a Sequential model layers have numbers: the data says which one reads it."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5)]
    state = torch.nn.Sequential(*layers).state_dict()
    torch.save(state, folder / "old.pth")
    head = Head(folder / "npz", state["2.weight"].numpy(), state["2.bias"].numpy())
    run("forget", folder / "old.pth", "--class", 1, *head.data, "-o", folder / "new.pth")
    new = torch.load(folder / "new.pth")
    W, b = head.forgotten(1, *head.data)
    assert np.array_equal(new["2.weight"], W) and np.array_equal(new["2.bias"], b)
    assert torch.equal(new["0.weight"], state["0.weight"])
    files = ["--model", folder / "new.pth", "--original", folder / "old.pth"]
    run("verify", folder / "new.pth.receipt.json", *files, *head.data, says="passed")
    # So do the means, for the next request.
    means = ["--means", folder / "new.pth.means.npz"]
    run("forget", folder / "new.pth", "--class", 0, *means, "-o", folder / "newer.pth")
    assert torch.load(folder / "newer.pth")["2.weight"].shape == (3, 32)
    naive = ["--class", 1, "--method", "naive", "-o", folder / "x"]
    run("forget", folder / "old.pth", *naive, code=2, says="2 matrices could be the head")
    layers[1:1] = [torch.nn.ReLU(), torch.nn.Linear(32, 32)]  # reads as many
    torch.save(torch.nn.Sequential(*layers).state_dict(), folder / "two.pth")
    words = ["--class", 1, *head.data, "-o", folder / "x"]
    run("forget", folder / "two.pth", *words, code=2, says="matrices could be the head")


def layers_behind_the_named_one(folder):
    """A usual name does not make an inner layer the head; what stands behind a head is said."""
    naive = ["--class", 3, "--method", "naive", "-o", folder / "x"]
    inner = {"fc": torch.nn.Linear(20, 64), "final": torch.nn.Linear(64, 10)}
    torch.save(torch.nn.ModuleDict(inner).state_dict(), folder / "inner.pth")
    run("forget", folder / "inner.pth", *naive, code=2, says="whose outputs final.weight")
    run("forget", folder / "inner.pth", *naive, "--weights", "final.weight", "--force")
    normalised = torch.nn.Sequential(torch.nn.Linear(20, 12), torch.nn.BatchNorm1d(12))
    torch.save(normalised.state_dict(), folder / "bn.pth")
    run("forget", folder / "bn.pth", *naive, code=4, says="behind the last layer 0.weight")
    run("forget", folder / "bn.pth", *naive, "--weights", "0.weight", "--force")
    before = torch.nn.Sequential(torch.nn.BatchNorm1d(12), torch.nn.Linear(20, 12))
    torch.save(before.state_dict(), folder / "before.pth")
    run("forget", folder / "before.pth", *naive, "--force")


def trained(net, make):
    optimizer = make(net.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(torch.randn(16, 6)), torch.arange(16) % K).backward()
        optimizer.step()
    return optimizer


def checkpoints(folder):
    """Nested, with prefixes, running averages and optimizers; training goes on."""
    makers = dict(
        adam=lambda p: torch.optim.AdamW(p, amsgrad=True),
        sgd=lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
        plain=lambda p: torch.optim.SGD(p, 0.1),
        rmsprop=lambda p: torch.optim.RMSprop(p, momentum=0.5),
        groups=lambda p: (lambda q: torch.optim.Adam([{"params": q[0::2]}, {"params": q[1::2]}]))(
            list(p)
        ),
    )
    for name, make in makers.items():
        net = Net()
        optimizer = trained(net, make)
        ema = {f"module.{key}": value * 0.5 for key, value in net.state_dict().items()}
        parallel = collections.OrderedDict(
            (f"module.{key}", value) for key, value in net.state_dict().items()
        )
        old = folder / f"{name}.pth"
        content = {
            "epoch": 3,
            "state_dict": parallel,
            "model_ema": ema,
            "optimizer": optimizer.state_dict(),
            "class_to_idx": {c: i for i, c in enumerate("ant bee cat dog eel".split())},
            "classes": "ant bee cat dog eel".split(),
            "best": 0.5,
        }
        torch.save(content, old)
        said = run("inspect", old)
        assert "bee" in said and "state_dict.module.fc.weight" in said, said
        run("forget", old, "--class", "cat", "--method", "naive", "-o", folder / f"{name}-new.pth")
        new = torch.load(folder / f"{name}-new.pth")
        assert same(new["state_dict"]["module.fc.weight"], net.fc.weight.detach()[KEEP])
        assert same(new["model_ema"]["module.fc.weight"], (net.fc.weight.detach() * 0.5)[KEEP])
        assert same(new["model_ema"]["module.fc.bias"], (net.fc.bias.detach() * 0.5)[KEEP])
        assert (
            new["classes"] == ["ant", "bee", "dog", "eel"]
            and new["epoch"] == 3
            and new["best"] == 0.5
        )
        assert new["class_to_idx"] == {"ant": 0, "bee": 1, "dog": 2, "eel": 3}, new["class_to_idx"]
        assert b"cat" not in zipfile.ZipFile(folder / f"{name}-new.pth").read(
            f"{name}/data.pkl"
        ).replace(b"_cat", b"")
        before, after = content["optimizer"]["state"], new["optimizer"]["state"]
        assert list(before) == list(after)
        numbers = {
            id(p): i
            for g, h in zip(optimizer.param_groups, optimizer.state_dict()["param_groups"])
            for p, i in zip(g["params"], h["params"])
        }
        heads = {numbers[id(net.fc.weight)], numbers[id(net.fc.bias)]}
        for i in before:
            for key, value in before[i].items():
                if torch.is_tensor(value):
                    cut = i in heads and value.dim() > 0
                    assert same(after[i][key], value[KEEP] if cut else value), (name, i, key)
        smaller = Net(K - 1)
        smaller.load_state_dict(
            {key[7:]: value for key, value in new["state_dict"].items()}, strict=True
        )
        again = make(smaller.parameters())
        again.load_state_dict(new["optimizer"])
        torch.nn.functional.cross_entropy(
            smaller(torch.randn(16, 6)), torch.arange(16) % (K - 1)
        ).backward()
        again.step()
        assert torch.isfinite(smaller.fc.weight).all()


def unclear_optimizers(folder):
    """Two parameters of one shape in an order that nobody knows; LBFGS."""
    net = torch.nn.Module()
    net.a, net.fc = torch.nn.Linear(K, K), torch.nn.Linear(K, K)
    optimizer = torch.optim.Adam(
        [{"params": [net.fc.weight, net.a.weight]}, {"params": [net.a.bias]}]
    )
    sum(p.sum() for p in net.parameters()).backward()
    optimizer.step()
    torch.save(
        {"model": net.state_dict(), "optimizer": optimizer.state_dict()}, folder / "unclear.pth"
    )
    run(
        "forget",
        folder / "unclear.pth",
        "--weights",
        "fc.weight",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "x.pth",
        code=4,
        says="del c['optimizer']",
    )
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters())

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(4, 6)).pow(2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    torch.save(
        {"model": net.state_dict(), "optimizer": optimizer.state_dict()}, folder / "lbfgs.pth"
    )
    run(
        "forget",
        folder / "lbfgs.pth",
        "--class",
        C,
        "--method",
        "naive",
        "-o",
        folder / "x.pth",
        code=4,
        says="del c['optimizer']",
    )
    assert not (folder / "x.pth").exists()


def whole_modules(folder):
    for aux in [False, True]:
        for legacy in [False, True]:
            net = Net(aux=aux).eval()
            old = folder / "whole.pt"
            torch.save(net, old, _use_new_zipfile_serialization=not legacy)
            run("inspect", old, says="loading this file in Python runs code: torch_nets.Net")
            out = folder / f"whole-{aux}-{legacy}.pt"
            new = forget(old, out, "--method", "naive")
            assert (
                new.fc.out_features == K - 1
                and new.fc.in_features == P
                and new.body.out_features == P
            )
            assert torch.equal(new.fc.weight, net.fc.weight[KEEP]) and new.fc.weight.requires_grad
            if aux:
                assert new.AuxLogits["fc"].out_features == K - 1
                assert torch.equal(new.AuxLogits["fc"].weight, net.AuxLogits["fc"].weight[KEEP])
            x = torch.randn(3, 6)
            assert torch.equal(new(x).argmax(1), net(x)[:, KEEP].argmax(1))


def legacy(folder):
    net = Net()
    for dtype in [torch.float32, torch.float16]:
        old = folder / "old.pth"
        torch.save(
            {"state_dict": net.to(dtype).state_dict()}, old, _use_new_zipfile_serialization=False
        )
        out = folder / f"old-{dtype}.pth"
        new = forget(old, out, "--method", "naive")["state_dict"]
        others_are_kept(net.state_dict(), new)
        by_hand = net.state_dict()
        assert same(new["fc.weight"], by_hand["fc.weight"][KEEP])
        assert same(new["fc.bias"], by_hand["fc.bias"][KEEP])


if __name__ == "__main__":
    checks.run_parts(
        [
            state_dicts,
            computes_what_the_filter_says,
            heads_without_a_name,
            layers_behind_the_named_one,
            checkpoints,
            unclear_optimizers,
            whole_modules,
            legacy,
        ]
    )
