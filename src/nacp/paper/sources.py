"""Where the probabilities of an experiment come from: simulated twins, or the files of a folder."""

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from nacp._types import Array, Ints
from nacp.errors import InputError
from nacp.noise import Noise, noise_for
from nacp.paper import printed, twins
from nacp.points import check_labels, open_rows


@dataclass(frozen=True, eq=False)
class Data:
    """A classifier's probabilities, the true labels, and the noise that comes with them, by its name.

    `human` holds noise models, each with the noisy labels that people gave, if the data have them.
    """

    probs: Array
    labels: Ints
    human: dict[str, tuple[Noise, Ints | None]]


@dataclass(frozen=True)
class Source:
    """A twin, or a file: the name of the twin or of the file without its ending, and the path of the file."""

    name: str
    path: Path | None = None

    @property
    def title(self) -> str:
        return printed.title_of(self.name, simulated=self.path is None)

    @cached_property
    def fingerprint(self) -> str:
        """What determines the data."""
        if self.path is None:
            return repr(twins.TWINS[self.name])
        return f"sha256 {hashlib.sha256(self.path.read_bytes()).hexdigest()}"

    @cached_property
    def shape(self) -> tuple[int, int]:
        if self.path is None:
            return twins.TWINS[self.name].size, twins.TWINS[self.name].k
        n, k = self.load().probs.shape
        return n, k

    @cached_property
    def priors(self) -> list[float] | None:
        """The frequencies of the true classes; None if some do not occur."""
        if self.path is None:
            return [1 / self.shape[1]] * self.shape[1]
        counts = np.bincount(self.load().labels, minlength=self.shape[1])
        return (counts / counts.sum()).tolist() if counts.all() else None

    def human(self) -> dict[str, tuple[Noise, Ints | None]]:
        """Return the noise that comes with the data; none with a twin."""
        return {} if self.path is None else self.load().human

    def load(self) -> Data:
        """Return the data; those that were loaded last are kept."""
        return _load(self, self.fingerprint)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the file, if there is one, in errors about its content."""
        try:
            yield
        except InputError as error:
            if self.path is None or error.argument.startswith(str(self.path)):
                raise
            raise error.about(f"{self.path}: {error.argument}") from None
        except (ValueError, zipfile.BadZipFile) as error:
            if self.path is None:
                raise
            raise InputError(f"{self.path}:", str(error)) from None


def folder_sources(folder: Path) -> list[Source]:
    """Return the classifiers in a folder: each ``.npz`` with ``probs`` and ``labels``.

    Those with known names come first. A file may hold noise matrices ``noise_matrix*``; the noisy labels that
    people gave are called ``noisy_labels*`` or ``human_sampled_noisy_labels*`` with the same ending.
    """
    if not folder.is_dir():
        remedy = "it must hold .npz files with probs and labels"
        raise InputError(str(folder), "is not a folder", remedy=remedy)
    found = [Source(path.stem, path) for path in sorted(folder.glob("*.npz")) if not _missing(path)]
    if not found:
        raise InputError(str(folder), "holds no .npz files with probs and labels")
    known = [*printed.TITLES]
    return sorted(found, key=lambda s: known.index(s.name) if s.name in known else len(known))


def left_out(folder: Path) -> list[str]:
    """Return a sentence about each ``.npz`` in a folder that is not a classifier."""
    missing = ((path, _missing(path)) for path in sorted(folder.glob("*.npz")))
    return [f"{path} holds no {' and no '.join(names)}: left out." for path, names in missing if names]


def _missing(path: Path) -> list[str]:
    with _open(path) as file:
        return [name for name in ("probs", "labels") if name not in file.files]


@contextmanager
def _open(path: Path) -> Iterator[np.lib.npyio.NpzFile]:
    with path.open("rb") as opened:
        try:
            file = np.load(opened, allow_pickle=False)
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise InputError(str(path), f"cannot be read as .npz: {error}") from None
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise InputError(str(path), "cannot be read as .npz: it holds one array")
        with file:
            yield file


@lru_cache(maxsize=1)
def _load(source: Source, fingerprint: str) -> Data:  # a file that changed has another fingerprint
    if source.path is None:
        probs, labels = twins.simulate(source.name, random_state=twins.TWINS[source.name].draw)
        return Data(probs, labels, {})
    with _open(source.path) as file, source.named():
        probs = file["probs"]
        rows = open_rows(probs)
        if rows.n < 2:
            raise InputError("probs", "must have a row to calibrate with and one to test", found="one row")
        labels = check_labels(file["labels"], rows.n, rows.k)
        human: dict[str, tuple[Noise, Ints | None]] = {}
        for name in file.files:
            if not name.startswith("noise_matrix"):
                continue
            noise = noise_for(file[name], rows.k)
            assert noise is not None
            noise.inverse(rows.k)  # refuses a singular matrix before anything is run
            ending = name.removeprefix("noise_matrix")
            names = (f"{prefix}noisy_labels{ending}" for prefix in ("human_sampled_", ""))
            key = next((key for key in names if key in file.files), None)
            noisy = None if key is None else check_labels(file[key], rows.n, rows.k)
            human[ending.strip("_")] = (noise, noisy)
    return Data(probs, labels, human)
