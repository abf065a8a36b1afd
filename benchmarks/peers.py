"""Peers, behind the same two verbs: calibrate and predict. They take the labels as they are."""

import importlib.abc
import importlib.machinery
import sys
import types

import numpy as np

ALPHA = 0.1


def _anything(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Empty stand-ins for packages that TorchCP imports but that the scores measured here do not use."""

    names = ("torchsort", "torch_geometric", "transformers")

    def find_spec(self, fullname, path, target=None):
        if fullname.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = _anything
        return module

    def exec_module(self, module):
        pass


class TorchCP:
    """TorchCP 1.2.1 on CPU, probabilities as they are."""

    def __init__(self, score):
        if not any(isinstance(finder, _Stubs) for finder in sys.meta_path):
            sys.meta_path.append(_Stubs())
        import torch
        from torchcp.classification.predictor import SplitPredictor
        from torchcp.classification.score import APS, LAC, RAPS

        self._torch = torch
        kind = {
            "hps": lambda: LAC(score_type="identity"),
            "aps": lambda: APS(score_type="identity", randomized=True),
            "raps": lambda: RAPS(score_type="identity", randomized=True, penalty=0.01, kreg=5),
            "aps-det": lambda: APS(score_type="identity", randomized=False),
        }[score]()
        self._predictor = SplitPredictor(kind, alpha=ALPHA, device=torch.device("cpu"))

    def calibrate(self, probs, labels):
        self._predictor.calculate_threshold(self._torch.from_numpy(probs), self._torch.from_numpy(labels))

    def predict(self, probs):
        return self._predictor.predict_with_logits(self._torch.from_numpy(probs))


class _Prefit:
    """A fitted classifier whose inputs are its probabilities."""

    def __init__(self, k):
        self.classes_ = np.arange(k)
        self.fitted_ = True

    def fit(self, X, y):
        return self

    def predict_proba(self, X):
        return X

    def predict(self, X):
        return X.argmax(axis=1)

    def __sklearn_is_fitted__(self):
        return True


def _classifier(k):
    from sklearn.base import BaseEstimator, ClassifierMixin

    return type("Prefit", (_Prefit, ClassifierMixin, BaseEstimator), {"__init__": _Prefit.__init__})(k)


class MAPIE:
    """MAPIE 1.6.0. Its RAPS tunes the penalty on a fifth of the calibration set; APS is deterministic."""

    def __init__(self, score, k):
        from mapie.classification import SplitConformalClassifier

        name = {"hps": "lac", "aps-det": "aps", "raps": "raps"}[score]
        self._model = SplitConformalClassifier(
            _classifier(k), confidence_level=1 - ALPHA, conformity_score=name, prefit=True, random_state=0
        )

    def calibrate(self, probs, labels):
        self._model.conformalize(probs, labels)

    def predict(self, probs):
        return self._model.predict_set(probs)


class Crepes:
    """crepes 0.9.1 with its score "hinge", which is HPS, and p-values that are not smoothed."""

    def __init__(self, k):
        from crepes import ConformalClassifier
        from crepes.extras import hinge

        self._model, self._score, self._classes = ConformalClassifier(), hinge, np.arange(k)

    def calibrate(self, probs, labels):
        self._model.fit(self._score(probs, self._classes, labels))

    def predict(self, probs):
        return self._model.predict_set(self._score(probs), confidence=1 - ALPHA, smoothing=False)
