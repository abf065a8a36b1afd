"""Calibrate inside a PyTorch evaluation loop: a DataLoader feeds a Calibrator, batch by batch.

    python examples/torch_dataloader.py

Runs on a GPU if there is one. Probabilities stay there; only counts are copied to the host. The task is to
identify the language of a snippet, among 50. A fifth of the calibration labels are replaced by random ones.
Needs nacp[torch]; takes some seconds on a CPU.
"""

from itertools import chain, pairwise

import torch
from torch.utils.data import DataLoader

import nacp
from nacp.datasets import load_languages

K, PAIRS, RATE = 50, 4096, 0.2


def items(part):
    """Return the snippets of the first languages, each with its label."""
    every = zip(part.texts, part.labels.tolist(), strict=True)
    return [(text, label) for text, label in every if label < K]


def collate(items):
    """Turn snippets into the hashed pairs of their letters."""
    texts, labels = zip(*items, strict=True)
    pairs = [[(31 * ord(a) + ord(b)) % PAIRS for a, b in pairwise(f" {text} ")] for text in texts]
    starts = torch.tensor([0] + [len(each) for each in pairs[:-1]]).cumsum(0)
    return torch.tensor(list(chain(*pairs))), starts, torch.tensor(labels)


def batches(items, shuffle=False):
    return DataLoader(items, 256, shuffle, collate_fn=collate)


def train(network, device, points):
    optimizer = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(3):
        for pairs, starts, labels in batches(points, shuffle=True):
            logits = network(pairs.to(device), starts.to(device))
            loss = torch.nn.functional.cross_entropy(logits, labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.inference_mode()
def calibrate(network, device, points, noise):
    stream = nacp.Calibrator(K, noise=noise, from_logits=True)
    for pairs, starts, labels in batches(points):
        stream.update(network(pairs.to(device), starts.to(device)), labels)
    return stream.finish(alpha=0.1, guarantee="binomial", delta=0.05)


@torch.inference_mode()
def test(network, device, points, cal):
    covered = size = 0
    for pairs, starts, labels in batches(points):
        sets = cal.predict_mask(network(pairs.to(device), starts.to(device)))  # booleans, on the device
        covered += int(sets.gather(1, labels.to(device)[:, None]).sum())
        size += int(sets.sum())
    return covered / len(points), size / len(points)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data, noise = load_languages(), nacp.UniformNoise(RATE)
    network = torch.nn.EmbeddingBag(PAIRS, K, mode="mean").to(device)
    train(network, device, items(data.train))
    texts, labels = zip(*items(data.calibration), strict=True)
    noisy = noise.sample(labels, K, random_state=0).tolist()
    cal = calibrate(network, device, list(zip(texts, noisy, strict=True)), noise)
    print(cal)
    covered, size = test(network, device, items(data.test), cal)
    print(f"Test: {covered:.1%} covered, by {size:.2f} of {K} languages.")


if __name__ == "__main__":
    main()
