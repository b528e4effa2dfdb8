# %% [markdown]
# # Forget a class, and see whether anyone could tell
#
# Networks are trained in PyTorch on digits of 8 x 8 pixels; one digit is to be forgotten. Five
# networks have seen it and forget it, five never saw it, five more of these give the floor. Run the
# cells in a notebook, or the file as it is: `python3 tutorial.py [FOLDER]`. Pictures and numbers go
# to FOLDER.

# %%
import os
import sys

import numpy as np
import sklearn.datasets
import torch
from torch import nn

import oubli

folder = sys.argv[1] if len(sys.argv) > 1 else "tutorial"
networks = int(os.environ.get("TUTORIAL_NETWORKS", "5"))
epochs = int(os.environ.get("TUTORIAL_EPOCHS", "60"))
forgotten = 3
os.makedirs(folder, exist_ok=True)
torch.set_num_threads(1)  # for networks this small, others would only wait

# %% [markdown]
# ## Data
# Half of the digits is for training, the other half is what the attacker asks about.

# %%
images, labels = sklearn.datasets.load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(labels))
images = torch.tensor(images[order] / 16, dtype=torch.float32)
labels = torch.tensor(labels[order])
half = len(labels) // 2
train_x, train_y, test_x, test_y = images[:half], labels[:half], images[half:], labels[half:]

# %% [markdown]
# ## Train
# A network that never saw the class has an output fewer, as one that forgot it will have.


# %%
def train(x, y, outputs, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 50), nn.ReLU(), nn.Linear(50, outputs))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(epochs):
        for part in torch.randperm(len(y)).split(128):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[part]), y[part]).backward()
            optimizer.step()
    return model.eval()


def logits(model):
    with torch.no_grad():
        return model(test_x).numpy()


kept = train_y != forgotten
renumbered = train_y - (train_y > forgotten).long()
full = [train(train_x, train_y, 10, seed) for seed in range(networks)]
never = [train(train_x[kept], renumbered[kept], 9, 1000 + seed) for seed in range(2 * networks)]
before = np.stack([logits(model) for model in full])
accuracy = (before.argmax(2) == test_y.numpy()).mean()
print(f"{networks} networks trained, right about {accuracy:.1%} of new digits")

# %% [markdown]
# ## Forget
# `forget_` streams the training data once, takes what the last layer is given, and replaces that
# layer in place. Nothing is trained.

# %%
loader = [(train_x, train_y)]
reports = [oubli.torch.forget_(model, loader, classes=[forgotten]) for model in full]
print(full[0])
print(reports[0])

# %% [markdown]
# ## Audit
# Could somebody who sees logits, probabilities or labels tell the networks that forgot the digit
# from those that never saw it? With five networks of each kind the answer is a rough one, and says
# so.

# %%
audit = oubli.audit(
    np.stack([logits(model) for model in full]),
    np.stack([logits(model) for model in never[:networks]]),
    test_y,
    classes=[forgotten],
    unseen2=np.stack([logits(model) for model in never[networks:]]),
    before=before,
    directions=200,
    bootstrap=200,
    forgotten_only=True,
)
print(audit.sentence)
audit  # in a notebook: the verdict and its picture

# %% [markdown]
# ## Report
# The same as a page, with every picture and the numbers behind it; and as tables.

# %%
page = os.path.join(folder, "audit.html")
audit.report(page, title=f"Digits: forgetting {forgotten}", force=True)
with open(os.path.join(folder, "audit.csv"), "w", encoding="utf-8") as out:
    out.write(audit.to_csv())
print(f"pictures: {page}")

# %% [markdown]
# ## A file that can be handed over
# The same request on a saved model leaves a receipt, which anybody can check.

# %%
saved = os.path.join(folder, "model.pth")
torch.manual_seed(0)
model = train(train_x, train_y, 10, 0)
torch.save(model.state_dict(), saved)
with torch.no_grad():
    features = model[:-1](train_x)
receipt = oubli.forget_file(
    saved,
    weights="2.weight",  # the last layer; the file has two
    classes=[forgotten],
    features=features,
    labels=train_y,
    output=os.path.join(folder, "new.pth"),
    force=True,
)
oubli.verify(receipt.path, model=receipt.model, weights="2.weight")
state = torch.load(receipt.model)
print(f"{receipt.model}: {list(state['2.weight'].shape)}; {receipt.path} verifies")
