"""Forgetting in PyTorch models."""

from __future__ import annotations

from typing import Any

import torch as _torch
from torch import nn as _nn

from . import _arrays
from ._error import bad_input, unfilterable, usage
from ._forget import Report, request
from ._heard import progress_of
from ._means import Means

#: What is measured on at most this much of the features: what still leaks.
_KEPT_BYTES = 256 * 2**20

# Attributes of models, and of their configurations, that hold the number of classes, or one entry
# for each.
_COUNTS = (
    "num_classes",
    "n_classes",
    "nb_classes",
    "nclasses",
    "num_labels",
    "num_class",
    "n_class",
)
_LISTS = ("classes", "class_names", "categories", "labels", "label_names")
_CONFIGS = ("config", "default_cfg", "pretrained_cfg", "hparams", "cfg")


def forget_(
    model: _nn.Module,
    loader: Any = None,
    classes=(),
    *,
    layer: str | _nn.Module | None = None,
    means: Means | None = None,
    optimizer: _torch.optim.Optimizer | None = None,
    class_names: list[str] | None = None,
    method: str = "normalization",
    solver: str = "auto",
    target: Any = None,
    explain: float | None = None,
    seed: int = 0,
    allow_nonlinear_tail: bool = False,
    ignore_accuracy: bool = False,
    progress=None,
) -> Report:
    """Takes classes out of a model's last layer, in place: afterwards it has fewer outputs.

    loader gives batches of inputs and labels: (x, y), or {"labels": y, ...} with the model's
    arguments. The layer is the last nn.Linear or 1 x 1 nn.Conv2d whose output the model gives
    (through a softmax or not), or the one that `layer` names ("classifier.6"). `means`, gathered
    from its inputs before, will do instead of a loader; but then the layer must be named, or be
    the only one of its size. Numbers of classes and lists of their names that the model keeps
    (num_classes, config.id2label, ...) follow. `optimizer`: its state of the layer is cut, too.

    Fails with `oubli.Error`, the model untouched, if the model is on a GPU, its last layer is none
    of these, or labels look misaligned with what the model says (unless `ignore_accuracy`).

    >>> import torch, oubli
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch._C.Generator ...>
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> x = torch.randn(300, 4)
    >>> y = model(x).argmax(1)  # as if it had been trained
    >>> report = oubli.torch.forget_(model, [(x, y)], classes=[1])
    >>> model[-1], model(x).shape
    (Linear(in_features=8, out_features=2, bias=True), torch.Size([300, 2]))
    >>> report.kept
    [0, 2]
    """
    if not isinstance(model, _nn.Module):
        raise usage(f"model: {type(model).__name__}; wanted a torch.nn.Module")
    words = _arrays.class_words(classes)
    _check_devices(model)
    if loader is None and means is None:
        raise usage("loader: missing; wanted batches of inputs and labels, or means=")
    if loader is not None:
        seen = _run(model, loader, _named(model, layer), progress_of(progress))
        head = seen.head
        if means is None:
            means = seen.means
        values, labels, shift_shows = seen.features(), seen.all_labels(), seen.shift_shows
    else:
        head = _named(model, layer) or _only_head(model, means)
        values = labels = None
        shift_shows = False
    _check_head(model, head)
    found = _arrays.head(_matrix(head.weight), head.bias)
    new = request(
        found,
        classes=words,
        values=None if values is None else _arrays.floats(values, "features").given("features"),
        labels=None if labels is None else _arrays.labels(labels),
        means=means,
        class_names=class_names or _names_of(model, found.weights.data.shape[0]),
        method=method,
        solver=solver,
        target=target,
        explain=explain,
        seed=seed,
        shift_shows=shift_shows,
        allow_nonlinear_tail=allow_nonlinear_tail,
        ignore_accuracy=ignore_accuracy,
    )
    cut = None if optimizer is None else _Cut(optimizer, head, new)
    _replace(head, new)
    if cut is not None:
        cut.apply(head)
    _fix_attributes(model, found.weights.data.shape[0], new.report.kept)
    return new.report


def _is_head(module: _nn.Module) -> bool:
    if isinstance(module, _nn.Conv2d):
        return (
            module.kernel_size == (1, 1)
            and module.stride == (1, 1)
            and module.padding in ((0, 0), "valid", "same")
            and module.groups == 1
        )
    return isinstance(module, _nn.Linear)


def _check_devices(model: _nn.Module) -> None:
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type != "cpu":
            raise usage(f"model: {name} is on the device {tensor.device}; use model.cpu() first")


def _named(model: _nn.Module, layer) -> _nn.Module | None:
    if layer is None:
        return None
    if isinstance(layer, str):
        try:
            found = model.get_submodule(layer)
        except AttributeError:
            names = [name for name, module in model.named_modules() if _is_head(module)]
            raise usage(f"layer: no '{layer}' in the model; it has {', '.join(names)}") from None
    else:
        found = layer
    if not any(found is module for module in model.modules()):
        raise usage("layer: is no part of the model")
    if not _is_head(found):
        raise unfilterable(
            f"layer: {type(found).__name__}; wanted torch.nn.Linear or a 1 x 1 torch.nn.Conv2d"
        )
    return found


def _only_head(model: _nn.Module, means: Means) -> _nn.Module:
    shape = means.means.shape
    fitting = [
        m for m in model.modules() if _is_head(m) and tuple(_matrix(m.weight).shape) == shape
    ]
    if len(fitting) == 1:
        return fitting[0]
    raise usage(
        f"layer: {len(fitting)} layers take {shape[1]} features to {shape[0]} classes; name one"
    )


def _matrix(weight: _torch.Tensor) -> _torch.Tensor:
    return weight.detach().flatten(1)


def _check_head(model: _nn.Module, head: _nn.Module) -> None:
    own = {id(head.weight), id(head.bias)}
    if not isinstance(head._parameters.get("weight"), _nn.Parameter):
        raise unfilterable("the last layer's weight is computed from others (weight norm, ...)")
    if hasattr(head, "parametrizations"):
        raise unfilterable(
            "the last layer is parametrized; torch's remove_parametrizations ends that"
        )
    storage = _start(head.weight)
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            shared = id(parameter) in own or _start(parameter) == storage
            if shared and module is not head:
                raise unfilterable(
                    "the last layer's weight is used by another layer, too "
                    f"({type(module).__name__}.{name}): tied weights cannot forget"
                )


def _start(tensor: _torch.Tensor) -> int:
    return (
        tensor.untyped_storage().data_ptr()
        if hasattr(tensor, "untyped_storage")
        else (tensor.storage().data_ptr())
    )


def _batch(batch):
    """Inputs as (args, kwargs), and labels."""
    if isinstance(batch, dict) or hasattr(batch, "keys"):
        batch = dict(batch)
        for name in ("labels", "label"):
            if name in batch:
                labels = batch.pop(name)
                return (), batch, labels
        raise usage("loader: a batch without 'labels'; wanted inputs and labels")
    if isinstance(batch, (list, tuple)) and len(batch) >= 2:
        return tuple(batch[:-1]), {}, batch[-1]
    raise usage(f"loader: gives {type(batch).__name__}; wanted batches (inputs, labels)")


def _labels(labels) -> _torch.Tensor:
    try:
        return _torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError):
        raise bad_input("loader: labels that are no numbers; wanted indices of classes") from None


def _logits_in(output) -> _torch.Tensor:
    for name in ("logits",):  # of Hugging Face
        output = getattr(output, name, output)
    if isinstance(output, (list, tuple)) and output:
        output = output[0]
    if not isinstance(output, _torch.Tensor) or output.ndim != 2:
        raise unfilterable("the model's output is no matrix of samples x classes")
    return output


class _Run:
    """What was seen while the model ran."""

    def __init__(self, head: _nn.Module) -> None:
        self.head = head
        self.means = Means(_matrix(head.weight).shape[0])
        self.shift_shows = False
        self._features: list[_torch.Tensor] = []
        self._labels: list[_torch.Tensor] = []
        self._step = 1  # every so many samples one is kept
        self._seen = self._kept = 0

    def add(self, features: _torch.Tensor, labels: _torch.Tensor) -> None:
        self.means.update(features, labels)
        first = -self._seen % self._step
        self._seen += len(labels)
        self._features.append(features[first :: self._step].clone())
        self._labels.append(labels[first :: self._step].clone())
        self._kept += len(self._labels[-1])
        while self._kept * features.shape[1] * features.element_size() > _KEPT_BYTES:
            self._thin()

    def _thin(self) -> None:
        """Every other one: what is kept is from all over the data, in whatever order it comes."""
        self._step *= 2
        self._features = [self.features()[::2].clone()]
        self._labels = [self.all_labels()[::2].clone()]
        self._kept = len(self._labels[0])

    def features(self):
        return _torch.cat(self._features) if self._features else None

    def all_labels(self):
        return _torch.cat(self._labels) if self._labels else None


def _run(model: _nn.Module, loader, head: _nn.Module | None, progress) -> _Run:
    """Streams the loader through the model as it is used: in eval mode, without gradients."""
    calls: list[tuple[_nn.Module, _torch.Tensor, _torch.Tensor]] = []

    def note(module, inputs, output):
        if inputs:
            calls.append((module, inputs[0], output))

    candidates = [head] if head is not None else [m for m in model.modules() if _is_head(m)]
    if not candidates:
        raise unfilterable("the model has no torch.nn.Linear and no 1 x 1 torch.nn.Conv2d")
    hooks = [module.register_forward_hook(note) for module in candidates]
    modes = [(module, module.training) for module in model.modules()]
    total = len(loader) if hasattr(loader, "__len__") else 0
    run = None
    try:
        model.eval()
        with _torch.no_grad():
            for number, batch in enumerate(loader):
                args, kwargs, labels = _batch(batch)
                labels = _labels(labels)
                calls.clear()
                output = _logits_in(model(*args, **kwargs))
                ran = list(calls)
                if run is None:
                    run = _Run(head if head is not None else _last(ran, output))
                    _check_columns(model, run.head, args, kwargs, output)
                _add(run, ran, output, labels)
                if progress is not None:
                    progress(number + 1, total, "batches")
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes:
            module.training = training
    if run is None:
        raise usage("loader: gave no batch")
    return run


def _last(calls, output: _torch.Tensor) -> _nn.Module:
    """The layer that ran last must be the one whose output is the model's."""
    if not calls:
        raise unfilterable("no torch.nn.Linear and no 1 x 1 torch.nn.Conv2d of the model was run")
    head, _, logits = calls[-1]
    if logits.shape[1 if isinstance(head, _nn.Conv2d) else -1] != output.shape[1]:
        raise unfilterable(
            f"the last layer that is linear ({type(head).__name__}, {logits.shape[-1]} outputs) is "
            f"not the last one: the model has {output.shape[1]} outputs; layer= names another"
        )
    return head


def _add(run: _Run, calls, output: _torch.Tensor, labels: _torch.Tensor) -> None:
    mine = [(x, y) for module, x, y in calls if module is run.head]
    if len(mine) != 1:
        raise unfilterable(f"the last layer ran {len(mine)} times for one batch; wanted once")
    features, logits = mine[0]
    if isinstance(run.head, _nn.Conv2d):
        # The mean over positions of the logits is the logit of the mean, where no more follows.
        features, logits = features.mean((2, 3)), logits.mean((2, 3))
    if features.ndim != 2 or features.shape[0] != labels.shape[0]:
        raise unfilterable(
            f"the last layer is given {list(features.shape)} for {labels.shape[0]} labels; wanted "
            "samples x features"
        )
    if not _same(output, logits):  # a step follows that shows a shift of all, unless a softmax
        softmax = any(_same(output, after(logits)) for after in _SOFTMAX)
        run.shift_shows = run.shift_shows or not softmax
    run.add(features, labels)


def _softmax(x: _torch.Tensor) -> _torch.Tensor:
    return _torch.softmax(x.double(), 1)


def _log_softmax(x: _torch.Tensor) -> _torch.Tensor:
    return _torch.log_softmax(x.double(), 1)


_SOFTMAX = (_softmax, _log_softmax)


def _same(output: _torch.Tensor, logits: _torch.Tensor) -> bool:
    """Up to the rounding of the model's type, and of means over positions."""
    if output.shape != logits.shape:
        return False
    eps = _torch.finfo(output.dtype).eps
    scale = logits.abs().max().double() + 1
    return bool((output.double() - logits.double()).abs().max() <= 64 * eps * scale)


def _check_columns(model: _nn.Module, head: _nn.Module, args, kwargs, output) -> None:
    """Output j must be class j's: if the layer's outputs come in reverse order, the model's must.
    Otherwise something follows that mixes them, and the wrong class might go."""
    axis = 1 if isinstance(head, _nn.Conv2d) else -1
    hook = head.register_forward_hook(lambda module, inputs, logits: logits.flip(axis))
    try:
        reverse = _logits_in(model(*args, **kwargs))
    finally:
        hook.remove()
    if output.shape[1] != _matrix(head.weight).shape[0] or not _same(reverse.flip(1), output):
        raise unfilterable(
            "what follows the last linear layer mixes its outputs, so that they are not the "
            "model's classes one by one; layer= names another"
        )


def _names_of(model: _nn.Module, classes: int) -> list[str] | None:
    names = getattr(getattr(model, "config", None), "id2label", None)
    if isinstance(names, dict) and sorted(names) == list(range(classes)):
        names = [str(names[j]) for j in range(classes)]
        return names if len(set(names)) == classes else None
    return None


def _like(old: _torch.Tensor | None, new: _torch.Tensor, shape) -> _nn.Parameter:
    requires = old.requires_grad if old is not None else True
    return _nn.Parameter(new.reshape(shape).clone(), requires_grad=requires)


def _replace(head: _nn.Module, new) -> None:
    """The layer stays the same object, for whoever holds it: hooks, optimizers, other names."""
    shape = (new.W.shape[0], *head.weight.shape[1:])
    bias = head.bias
    head.weight = _like(head.weight, new.W, shape)
    if new.b is not None:
        b = new.b.to(head.weight.dtype)
        head.bias = _like(bias if bias is not None else head.weight, b, b.shape)
    if isinstance(head, _nn.Conv2d):
        head.out_channels = shape[0]
    else:
        head.out_features = shape[0]


class _Cut:
    """The state of an optimizer, to be cut with the layer; found before anything is changed."""

    def __init__(self, optimizer: _torch.optim.Optimizer, head: _nn.Module, new) -> None:
        self._optimizer = optimizer
        self._old = [p for p in (head.weight, head.bias) if p is not None]
        self._kept = _torch.tensor(new.report.kept)
        self._classes = head.weight.shape[0]
        groups = [g for g in optimizer.param_groups if any(p is self._old[0] for p in g["params"])]
        if not groups:
            raise usage("optimizer: does not have the weight of the model's last layer")
        self._group = groups[0]
        for parameter in self._old:
            for name, value in optimizer.state.get(parameter, {}).items():
                if (
                    isinstance(value, _torch.Tensor)
                    and value.ndim
                    and not self._fits(parameter, value)
                ):
                    raise unfilterable(f"optimizer: its state '{name}' is not of the layer's shape")

    @staticmethod
    def _fits(parameter: _torch.Tensor, value: _torch.Tensor) -> bool:
        return value.shape == parameter.shape

    def apply(self, head: _nn.Module) -> None:
        new = [p for p in (head.weight, head.bias) if p is not None]
        for old, now in zip(self._old, new):
            for group in self._optimizer.param_groups:
                group["params"] = [now if p is old else p for p in group["params"]]
            state = self._optimizer.state.pop(old, None)
            if state is not None:
                self._optimizer.state[now] = {
                    name: value[self._kept].clone()
                    if isinstance(value, _torch.Tensor) and value.ndim
                    else value
                    for name, value in state.items()
                }
        self._group["params"] += new[len(self._old) :]  # a bias that was not there


def _fix_attributes(model: _nn.Module, classes: int, kept: list[int]) -> None:
    for module in model.modules():
        _fix(vars(module), classes, kept)
        for name in _CONFIGS:
            config = module.__dict__.get(name)
            if config is not None and not isinstance(config, _nn.Module):
                _fix_config(config, classes, kept)


def _fix(fields: dict, classes: int, kept: list[int]) -> None:
    for name in _COUNTS:
        if type(fields.get(name)) is int and fields[name] == classes:
            fields[name] = len(kept)
    for name in _LISTS:
        value = fields.get(name)
        if isinstance(value, (list, tuple)) and len(value) == classes:
            fields[name] = (
                type(value)([value[j] for j in kept]) if type(value) in (list, tuple) else value
            )


def _fix_config(config, classes: int, kept: list[int]) -> None:
    fields = config if isinstance(config, dict) else getattr(config, "__dict__", None)
    if fields is None:
        return
    _fix(fields, classes, kept)
    names = fields.get("id2label")
    if isinstance(names, dict) and sorted(names) == list(range(classes)):
        fields["id2label"] = {i: names[j] for i, j in enumerate(kept)}
        if isinstance(fields.get("label2id"), dict):
            fields["label2id"] = {name: i for i, name in fields["id2label"].items()}
