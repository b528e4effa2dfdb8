"""oubli.torch.forget_: every kind of head, what it leaves untouched, what it refuses."""

import collections
import copy
import io
import unittest

from support import Case, need

torch = need("torch")
import oubli  # noqa: E402
from torch import nn  # noqa: E402


# Where nobody trained the model, that it recognises its classes is not the point.
UNTRAINED = {"ignore_accuracy": True}


def problem(samples=300, classes=4, size=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(classes, size, generator=generator)
    y = torch.arange(samples) % classes
    return centres[y] + torch.randn(samples, size, generator=generator), y


def batches(x, y, size=64):
    return list(zip(x.split(size), y.split(size)))


def trained(model, x, y, steps=60, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model


def through(layers, x):
    """What `layers` make of x in the same batches: others may be rounded otherwise."""
    with torch.no_grad():
        return torch.cat([layers(part) for part in x.split(64)])


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


class Vision(nn.Module):
    """As torchvision's: features, then a classifier under a name."""

    def __init__(self, classes=4):
        super().__init__()
        self.aux = nn.Linear(16, 7)  # runs in training only
        self.fc = nn.Linear(16, classes)  # defined before what runs before it
        self.features = nn.Sequential(nn.Linear(6, 16), nn.Tanh())

    def forward(self, x):
        x = self.features(x)
        if self.training:
            self.aux(x)
        return self.fc(x)


class Timm(nn.Module):
    """As timm's: num_classes, get_classifier, a configuration."""

    def __init__(self, classes=4):
        super().__init__()
        self.num_classes = classes
        self.default_cfg = {"num_classes": classes, "classifier": "head"}
        self.stem = nn.Linear(6, 16)
        self.head = nn.Linear(16, classes)

    def get_classifier(self):
        return self.head

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)))


class Hub(nn.Module):
    """As transformers': keyword arguments, an object with logits, config.id2label."""

    def __init__(self, classes=4):
        super().__init__()
        self.config = type("Config", (), {})()
        self.config.num_labels = classes
        self.config.id2label = {j: "abcd"[j] for j in range(classes)}
        self.config.label2id = {"abcd"[j]: j for j in range(classes)}
        self.num_labels = classes
        self.body = nn.Linear(6, 16)
        self.classifier = nn.Linear(16, classes)

    def forward(self, pixels, scale):
        output = collections.namedtuple("Output", "logits")
        return output(self.classifier(torch.relu(self.body(pixels * scale))))


class Pooled(nn.Module):
    """A 1 x 1 convolution, then the mean over positions."""

    def __init__(self, classes=4, after=nn.Identity()):
        super().__init__()
        self.body = nn.Conv2d(6, 16, 1)
        self.head = nn.Conv2d(16, classes, 1)
        self.after = after

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.after(self.head(x)).mean((2, 3))


class Heads(Case):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def check(self, model, loader, features, y, head, forgotten=1, **more):
        """The new layer is that of oubli.forget, on the features that a hook saw."""
        W, b = head.weight.detach().clone().flatten(1), head.bias.detach().clone()
        expected = oubli.forget(W, b, features=features, labels=y, classes=[forgotten], **UNTRAINED)
        report = oubli.torch.forget_(model, loader, classes=[forgotten], **more, **UNTRAINED)
        self.assertEqual(report.kept, [0, 2, 3])
        self.assertTrue(torch.equal(head.weight.detach().flatten(1), expected.W))
        self.assertTrue(torch.equal(head.bias.detach(), expected.b))
        self.assertEqual(head.weight.shape[0], 3)
        self.assertTrue(head.weight.requires_grad)
        return report

    def test_sequential(self):
        x, y = problem()
        model = trained(
            nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4)), x, y
        )
        model.eval()
        features = through(model[:-1], x)
        before = through(model, x)
        model.train()
        model[2].eval()  # modes are left as they were, one by one
        report = self.check(model, batches(x, y), features, y, model[-1])
        self.assertEqual([m.training for m in model], [True, True, False, True])
        self.assertEqual(model[-1].out_features, 3)
        self.assertEqual(len(model[-1]._forward_hooks), 0)
        model.eval()
        # Normalization: probabilities are those of cutting the unit off.
        with torch.no_grad():
            after = torch.softmax(model(x), 1)
        naive = torch.softmax(before[:, [0, 2, 3]], 1)
        self.assertLess((after - naive).abs().max(), 1e-5)
        self.assertIsNotNone(report.leaks)
        model.train()
        trained(model, x[y != 1], torch.tensor([0, -1, 1, 2])[y[y != 1]], steps=2)  # still trains

    def test_torchvision_like(self):
        x, y = problem()
        model = Vision()
        features = through(model.features, x)
        self.check(model, batches(x, y), features, y, model.fc)
        self.assertEqual(model.aux.out_features, 7)

    def test_timm_like(self):
        x, y = problem()
        model = Timm()
        held = model.get_classifier()
        features = through(lambda part: torch.relu(model.stem(part)), x)
        self.check(model, batches(x, y), features, y, model.head)
        self.assertIs(model.get_classifier(), held)
        self.assertEqual((model.num_classes, model.default_cfg["num_classes"]), (3, 3))

    def test_transformers_like(self):
        x, y = problem()
        model = Hub()
        loader = [{"pixels": a, "scale": 1.0, "labels": b} for a, b in batches(x, y)]
        report = oubli.torch.forget_(model, loader, classes=["b"], **UNTRAINED)
        self.assertEqual(report.kept, [0, 2, 3])
        self.assertEqual((model.num_labels, model.config.num_labels), (3, 3))
        self.assertEqual(model.config.id2label, {0: "a", 1: "c", 2: "d"})
        self.assertEqual(model.config.label2id, {"a": 0, "c": 1, "d": 2})

    def test_convolution(self):
        x, y = problem()
        images = x[:, :, None, None] + 0.1 * torch.randn(300, 6, 3, 3)
        model = Pooled()
        features = through(lambda part: torch.relu(model.body(part)).mean((2, 3)), images)
        self.check(model, batches(images, y), features, y, model.head)
        self.assertEqual(model(images).shape, (300, 3))
        self.assertEqual(model.head.out_channels, 3)

    def test_softmax_after_it(self):
        x, y = problem()
        for after in (nn.Softmax(1), nn.LogSoftmax(1)):
            model = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 4), after)
            report = oubli.torch.forget_(model, batches(x, y), classes=[1], **UNTRAINED)
            self.assertEqual(report.method, "normalization")

    def test_types(self):
        x, y = problem()
        for dtype in (torch.float64, torch.bfloat16):
            model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).to(dtype)
            oubli.torch.forget_(model, batches(x.to(dtype), y), classes=[1], **UNTRAINED)
            self.assertEqual((model[-1].weight.dtype, model[-1].bias.dtype), (dtype, dtype))
            self.assertEqual(model(x.to(dtype)).shape, (300, 3))

    def test_bfloat16_is_rounded_once(self):
        x, y = problem()
        W = torch.randn(4, 6)
        half = W.to(torch.bfloat16)
        new = oubli.forget(half, classes=[1], method="naive")
        self.assertTrue(torch.equal(new.W, half[[0, 2, 3]]))
        exact = oubli.forget(
            half.double(), features=x.double(), labels=y, classes=[1], solver="paper"
        )
        new = oubli.forget(half, features=x, labels=y, classes=[1], solver="paper")
        self.assertEqual(new.W.dtype, torch.bfloat16)
        # features in float32 and in float64 differ by nothing here; one rounding, to nearest.
        error = (new.W.double() - exact.W).abs()
        self.assertTrue((error <= exact.W.abs() * 2.0**-8 * 1.001).all())

    def test_gradients_and_tensors(self):
        x, y = problem()
        model = nn.Linear(6, 4)
        new = oubli.forget(
            model.weight, model.bias, features=x, labels=y, classes=[1], ignore_accuracy=True
        )
        self.assertIsInstance(new.W, torch.Tensor)
        self.assertFalse(new.W.requires_grad)

    def test_means_will_do(self):
        x, y = problem()
        model, other = (nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)) for _ in "ab")
        other.load_state_dict(model.state_dict())
        features = through(model[:-1], x)
        means = oubli.Means(classes=4)
        means.update(features, y)
        oubli.torch.forget_(model, classes=[1], means=means)
        oubli.torch.forget_(other, batches(x, y), classes=[1], layer="2", **UNTRAINED)
        self.assertTrue(torch.equal(model[-1].weight, other[-1].weight))

    def test_nothing_is_left(self):
        x, y = problem()
        model = trained(nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4)), x, y)
        row = model[-1].weight[1].detach().numpy().copy()
        oubli.torch.forget_(model, batches(x, y), classes=[1])
        for saved in (model, model.state_dict()):
            file = io.BytesIO()
            torch.save(saved, file)
            self.assertNotIn(row.tobytes(), file.getvalue())
            for at in range(0, 64, 16):  # nor a part of it
                self.assertNotIn(row[at : at + 16].tobytes(), file.getvalue())


class Optimizers(Case):
    def test_state_is_cut(self):
        for make in (
            lambda p: torch.optim.Adam(p, 0.01),
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9),
        ):
            x, y = problem()
            model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
            optimizer = make(model.parameters())
            trained(model, x, y, steps=5, optimizer=optimizer)
            old = model[-1].weight
            before = {
                k: v.clone()
                for k, v in optimizer.state[old].items()
                if torch.is_tensor(v) and v.ndim
            }
            self.assertTrue(before)
            oubli.torch.forget_(model, batches(x, y), classes=[1], optimizer=optimizer, **UNTRAINED)
            self.assertNotIn(old, optimizer.state)
            now = optimizer.state[model[-1].weight]
            for name, value in before.items():
                self.assertTrue(torch.equal(now[name], value[[0, 2, 3]]))
            kept = y != 1
            trained(
                model, x[kept], torch.tensor([0, -1, 1, 2])[y[kept]], steps=3, optimizer=optimizer
            )

    def test_another_models_optimizer(self):
        x, y = problem()
        model = nn.Sequential(nn.Linear(6, 4))
        before = state(model)
        other = torch.optim.Adam(nn.Linear(2, 2).parameters())
        words = dict(optimizer=other, **UNTRAINED)
        self.refuses(2, "optimizer", oubli.torch.forget_, model, batches(x, y), [1], **words)
        self.assertTrue(all(torch.equal(before[name], t) for name, t in model.state_dict().items()))


class Refusals(Case):
    def untouched(self, code, words, model, loader, classes=(1,), **more):
        before, modes = state(model), [m.training for m in model.modules()]
        attributes = copy.deepcopy({k: v for k, v in vars(model).items() if not k.startswith("_")})
        self.refuses(code, words, oubli.torch.forget_, model, loader, classes, **more)
        after = model.state_dict()
        self.assertEqual(list(before), list(after))
        for name, tensor in before.items():
            if tensor.device.type == "cpu":
                self.assertTrue(torch.equal(tensor, after[name]))
        self.assertEqual(modes, [m.training for m in model.modules()])
        self.assertEqual(
            str(attributes), str({k: v for k, v in vars(model).items() if not k.startswith("_")})
        )
        self.assertFalse(any(m._forward_hooks for m in model.modules()))

    def test_devices(self):
        x, y = problem()
        model = nn.Sequential(nn.Linear(6, 4)).to("meta")  # not the CPU: as a GPU would be
        self.untouched(2, "model.cpu()", model, batches(x, y))
        W = torch.randn(4, 6, device="meta")
        self.refuses(2, "use .cpu()", oubli.forget, W, classes=[1], method="naive")
        self.refuses(
            3, "to_dense", oubli.forget, torch.eye(4).to_sparse(), classes=[1], method="naive"
        )

    def test_last_layer_is_not_linear(self):
        x, y = problem()
        self.untouched(
            4,
            "no torch.nn.Linear",
            nn.Sequential(nn.Conv1d(1, 4, 3), nn.Flatten()),
            [(x[:, None, :3], y)],
        )
        self.untouched(
            4,
            "not the last one",
            nn.Sequential(
                nn.Linear(6, 2), nn.Unflatten(1, (1, 2)), nn.Conv1d(1, 2, 1), nn.Flatten()
            ),
            batches(x, y),
        )
        mixing = nn.Sequential(
            nn.Linear(6, 4), nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 1, 3, padding=1), nn.Flatten()
        )
        self.untouched(4, "mixes", mixing, batches(x, y))

    def test_steps_that_show_a_shift(self):
        x, y = problem()
        model = nn.Sequential(nn.Linear(6, 4), nn.Sigmoid())
        self.untouched(4, "non-linear step", model, batches(x, y))
        before, rows = model(x), model[0].weight[[0, 2, 3]]
        oubli.torch.forget_(model, batches(x, y), [1], method="naive", **UNTRAINED)
        self.assertTrue(torch.equal(model[0].weight, rows))
        # PyTorch may add up products of three rows in another order than those of four.
        self.assertLess((model(x) - before[:, [0, 2, 3]]).abs().max(), 1e-5)
        images = x[:, :, None, None].expand(-1, -1, 2, 2).contiguous()
        pooled = Pooled(after=nn.ReLU())  # as SqueezeNet
        self.untouched(4, "non-linear step", pooled, batches(images, y))
        oubli.torch.forget_(pooled, batches(images, y), [1], allow_nonlinear_tail=True, **UNTRAINED)

    def test_requests(self):
        x, y = problem()
        model = Timm()
        self.untouched(2, "classes: empty", model, batches(x, y), [])
        self.untouched(2, "loader: missing", model, None)
        self.untouched(2, "loader: gave no batch", model, [])
        self.untouched(2, "wanted batches", model, [x])
        self.untouched(2, "without 'labels'", model, [{"x": x}])
        self.untouched(2, "no 'fc' in the model", model, batches(x, y), layer="fc")
        self.untouched(2, "no part of the model", model, batches(x, y), layer=nn.Linear(16, 4))
        self.untouched(3, "label 4", model, batches(x, y + 1))
        self.untouched(3, "no numbers", model, [(x, ["a"] * 300)])
        self.untouched(3, "float32; wanted integers", model, batches(x, y.float()))
        self.untouched(2, "9", model, batches(x, y), [9])
        self.untouched(3, "no sample of", model, batches(x[y != 2], y[y != 2]))
        self.untouched(4, "", model, batches(x, y), [0, 1, 2])
        self.refuses(2, "wanted a torch.nn.Module", oubli.torch.forget_, object(), [], [1])

    def test_labels_that_the_model_does_not_mean(self):
        torch.manual_seed(0)
        x, y = problem(samples=400)
        model = trained(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)), x, y)
        self.untouched(4, "near chance", model, batches(x, (y + 1) % 4))
        swapped = torch.tensor([2, 1, 0, 3])[y]
        self.untouched(4, "of class 0 the model calls", model, batches(x, swapped), [0])
        self.untouched(4, "look swapped", model, batches(x, swapped))
        cycle = torch.tensor([2, 1, 3, 0])[y]  # not the class that is to go
        self.untouched(4, "labels look misaligned", model, batches(x, cycle))
        means = oubli.Means(classes=4)  # data beside means is judged as well
        means.update(through(model[:-1], x), y)
        self.untouched(4, "look swapped", model, batches(x, swapped), means=means)
        # In the order of the classes, with little room: what is kept is from all of them.
        order = y.argsort(stable=True)
        kept, oubli.torch._KEPT_BYTES = oubli.torch._KEPT_BYTES, 64 * 16 * 4
        try:
            self.untouched(4, "misaligned", model, batches(x[order], swapped[order]))
            report = oubli.torch.forget_(model, batches(x[order], y[order], size=7), [1])
        finally:
            oubli.torch._KEPT_BYTES = kept
        self.assertEqual(report.leaks["samples"], 50)  # every eighth

    def test_tied_and_computed_weights(self):
        x, y = problem(size=4)
        tied = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        tied[0].weight = tied[1].weight
        self.untouched(4, "tied", tied, batches(x, y))
        normed = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 4)))
        before = state(normed)
        self.refuses(4, "computed", oubli.torch.forget_, normed, batches(x, y), [1])
        self.assertTrue(
            all(torch.equal(before[name], t) for name, t in normed.state_dict().items())
        )

    def test_a_failing_model(self):
        x, y = problem()
        model = Timm()
        with self.assertRaises(RuntimeError):
            oubli.torch.forget_(model, [(x[:, :5], y)], [1])
        self.assertFalse(any(m._forward_hooks for m in model.modules()))
        self.assertTrue(model.training)


if __name__ == "__main__":
    unittest.main()
