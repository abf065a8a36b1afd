"""Tensors: the same results as of arrays, also on a device, from which nothing large is copied to the host.

The tests need no GPU. They simulate a device: its tensors report another device, and refuse to be mixed with
tensors of the host or to be copied there in large numbers or as rows.
"""

import re
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import nacp
from nacp.coverage.grid import cells_of
from nacp.engine import Spec, traced
from nacp.points import arrays

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from nacp.engine import torch as tested  # noqa: E402

DEVICE = torch.device("lazy")  # this PyTorch knows no more of it than the name
N, K, BLOCK = 2000, 120, 1 << 15  # points, classes, and entries of a block
SAMPLE = 40  # so many rows tell how wide the numbers are


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# A device


class Away(torch.Tensor):
    """A tensor on the device: operations on it are done with the tensor of the host that it hides."""

    @staticmethod
    def __new__(cls, hidden):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            hidden.shape,
            dtype=hidden.dtype,
            device=DEVICE,
            strides=hidden.stride(),
            storage_offset=hidden.storage_offset(),
            requires_grad=hidden.requires_grad,
        )
        made.hidden = hidden.detach()
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise AssertionError(f"{function} outside of the device")


class Device(TorchDispatchMode):
    """While it is on, tensors can be made on the device, and copies from there are watched.

    Nothing with `most` entries or more may be copied to the host, nor more than `sample` rows of k floats
    at once.
    """

    def __init__(self, most, k):
        super().__init__()
        self.most, self.k, self.sample, self.largest = most, k, SAMPLE, 0

    @classmethod
    def _should_skip_dynamo(cls):
        return False  # to skip it takes seconds to import it

    def put(self, values, requires_grad=False):
        return Away(torch.as_tensor(values).clone().requires_grad_(requires_grad))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        target, found = kwargs.get("device"), []
        mapped(lambda each: found.append(each) if isinstance(each, torch.Tensor) else None, [args, kwargs])
        away = any(isinstance(each, Away) for each in found)
        name = function.overloadpacket.__name__
        if away and name != "_to_copy":
            mixed = [each for each in found if not isinstance(each, Away) and each.ndim]
            assert not mixed, f"{name} of tensors on two devices"
        if target is not None:
            kwargs["device"] = torch.device("cpu")
            if away and target.type == "cpu":
                (source,) = found
                self.largest = max(self.largest, source.numel())
                assert source.numel() < self.most, f"{tuple(source.shape)} entries are copied to the host"
                rows = source.ndim == 2 and source.shape[1] == self.k and len(source) > self.sample
                assert not (rows and source.is_floating_point()), "rows are copied to the host"
        done = function(*mapped(hidden, args), **mapped(hidden, kwargs))
        if target.type == "cpu" if target is not None else not away:
            return done
        if isinstance(done, torch.Tensor) and name.endswith("_") and not name.startswith("_"):
            return args[0]  # in place
        return mapped(lambda each: Away(each) if isinstance(each, torch.Tensor) else each, done)


def mapped(function, tree):
    if isinstance(tree, dict):
        return {key: mapped(function, each) for key, each in tree.items()}
    return [mapped(function, each) for each in tree] if isinstance(tree, list | tuple) else function(tree)


def hidden(each):
    return each.hidden if isinstance(each, Away) else each


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(arrays, "block_rows", lambda k: max(1, BLOCK // k))
    with Device(N * K, K) as made:
        yield made


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    probs = np.exp(3 * rng.standard_normal((N, K)))
    probs = (probs / probs.sum(axis=1, keepdims=True)).astype(np.float32)
    truth = (probs.cumsum(axis=1) > rng.random((N, 1)) * probs.sum(axis=1, keepdims=True)).argmax(axis=1)
    matrix = nacp.MatrixNoise(0.75 * np.eye(K) + 0.25 * rng.dirichlet(np.full(K, 0.5), K))
    noises = [nacp.UniformNoise(0.2), matrix]
    return probs, truth, [(each, each.sample(truth, K, random_state=1)) for each in noises]


def test_the_device_of_these_tests_refuses_copies_of_the_matrix(points, device):
    there, few = device.put(points[0]), device.put(points[0][: SAMPLE + 1])
    for copied in (there.cpu, there.numpy, few.tolist, lambda: np.asarray(few)):
        with pytest.raises((AssertionError, RuntimeError, TypeError)):
            copied()
    with pytest.raises(AssertionError, match="two devices"):
        there + torch.tensor(points[0])
    assert there[:5, 0].cpu().tolist() == points[0][:5, 0].tolist()


# The public interface


@pytest.mark.parametrize(("score", "guarantee"), [("hps", "pac"), ("aps", "expected"), ("margin", "none")])
def test_a_tensor_on_a_device_gives_the_same_calibration_and_sets(points, device, score, guarantee):
    probs, _, noises = points
    noise, given = noises[(len(score) + len(guarantee)) % 2]
    options = {"noise": noise, "score": score, "guarantee": guarantee, "alpha": 0.2}
    expected = nacp.calibrate(probs, given, **options)
    found = nacp.calibrate(device.put(probs), device.put(given), **options)
    assert found == expected
    assert np.array_equal(found.curve.clean, expected.curve.clean)
    there = device.put(probs)
    for allow_empty in (True, False):
        sets = expected.predict_set(probs, allow_empty=allow_empty)
        assert found.predict_set(there, allow_empty=allow_empty).to_lists() == sets.to_lists()
        mask = found.predict_mask(there, allow_empty=allow_empty)
        assert isinstance(mask, Away)
        assert mask.dtype == torch.bool
        np.testing.assert_array_equal(mask.hidden.numpy(), np.asarray(sets))
    assert 0 < device.largest < N * K


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_all_widths_and_tensors_that_require_grad(points, device, dtype):
    probs, _, ((noise, given), _) = points
    values = torch.tensor(probs.astype(np.float64)).to(getattr(torch, dtype))
    same = values if dtype != "bfloat16" else values.float()
    if dtype == "bfloat16":
        device.sample = BLOCK // K  # their sums miss 1 by more than the engine's check allows
    options = {"noise": noise, "score": "aps", "guarantee": "none"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nacp.NoiseModelWarning)
        expected = nacp.calibrate(same.numpy(), given, **options)
        there = device.put(values, requires_grad=True)
        assert there.requires_grad
        for each in (there, values.clone().requires_grad_()):
            found = nacp.calibrate(each, torch.tensor(given), **options)
            assert found == expected
            assert found.widths == expected.widths
    sets = expected.predict_set(same.numpy()).to_lists()
    assert found.predict_set(there).to_lists() == sets
    if dtype == "float32":
        wide = device.put(same.double())  # rounded to float32
        assert found.predict_set(wide).to_lists() == sets
        narrow = device.put(same.half())
        for each in (narrow, same.half().numpy()):
            with pytest.raises(
                nacp.InputError, match="is float16, but the calibration was made with float32"
            ):
                found.predict_set(each)


def test_logits_and_normalised_rows_agree_to_rounding(points, device):
    probs, _, ((noise, given), _) = points
    logits = np.log(probs.astype(np.float64) + 1e-30) + np.arange(N)[:, None]
    device.sample = BLOCK // K  # the first block, to see whether they are probabilities
    for values, asked in ((logits, "from_logits"), (100 * probs, "normalize")):
        options = {"noise": noise, "guarantee": "none", asked: True}
        expected = nacp.calibrate(values, given, **options)
        found = nacp.calibrate(device.put(values), given, **options)
        # Numbers that differ by rounding may fall on two sides of a point of the grid.
        assert abs(cells_of([found.threshold]) - cells_of([expected.threshold])) <= 1
        batch = found.predict_mask(device.put(values)).hidden
        alone = [found.predict_mask(device.put(values[i : i + 1])).hidden for i in range(40)]
        assert torch.equal(batch[:40], torch.cat(alone))
        differ = np.count_nonzero(np.asarray(found.predict_set(values)) != batch.numpy())
        assert differ <= 2  # labels that score just the threshold


def test_other_options_and_functions_take_tensors(points, device):
    probs, truth, ((noise, given), (matrix, _)) = points
    known = {"noise": noise, "score": "raps"}
    two = np.stack([given, noise.sample(truth, K, random_state=9)], axis=1)
    two[::5, 1] = -1
    cal = nacp.calibrate(probs, given, **known, guarantee="none")
    device.most, device.sample = 4 * N * K, BLOCK // K  # scores of all labels, and sizes at many thresholds

    def found(put):
        rows, labels = put(probs), put(given)
        stream = nacp.Calibrator(K, **known)
        for some in np.array_split(np.arange(N), 3):
            stream.update(rows[some], labels[some])
        return [
            nacp.calibrate(rows, put(two), noise=matrix, guarantee="none"),
            nacp.calibrate(rows, given, noise=noise, guarantee="binomial", unlabelled=put(probs[:500])),
            nacp.calibrate(put(-probs), given, noise=noise, guarantee="none", score="precomputed"),
            nacp.coverage_curve(rows, labels, **known, thresholds=[0.3, 0.9]).clean.tolist(),
            str(nacp.compare(rows, labels, noise=noise, guarantees=["none", "nacp"])),
            str(cal.diagnose(rows, labels)),
            nacp.RAPS().label_scores(rows, labels).tolist(),
            nacp.RAPS().uniforms(rows).tolist(),
            cal.predictor()(put(probs[3])),
            nacp.evaluate(cal.predict_set(rows), put(truth)),
            tuple(cal.predict_mask(rows[:0]).shape),
            stream,
        ]

    assert found(device.put) == found(lambda values: values)


@pytest.mark.slow
def test_the_example_of_a_data_loader_runs(capsys):
    example = Path(__file__).parents[2] / "examples" / "torch_dataloader.py"
    runpy.run_path(str(example), run_name="__main__")
    told = re.search(r"Test: ([0-9.]+)% covered, by ([0-9.]+) of 50", capsys.readouterr().out)
    # The promise fails with probability 0.05, and 2,000 test points have a standard error of 0.7%.
    assert float(told[1]) > 90 - 3 * 0.7
    assert float(told[2]) < 5


# Errors


def test_errors_have_the_same_words(points, device):
    probs, _, ((noise, given), _) = points
    options = {"noise": noise, "guarantee": "none"}
    nan, infinite, negative, large = (probs.copy() for _ in range(4))
    nan[1100, 2], infinite[5, 1], negative[7, 0], large[1199] = np.nan, np.inf, -0.5, 2 * probs[1199]
    alone = (nan, infinite, negative, large, np.log(probs + 1e-9), probs[0], probs[:0], 100 * probs)
    wrong = [(each, {}) for each in alone]
    wrong += [(each, {"from_logits": True}) for each in (probs, infinite)]
    wrong += [(each, {"normalize": True}) for each in (nan, np.zeros((9, K)))]
    wrong += [(nan, {"score": "precomputed"})]
    for values, more in wrong:
        said = []
        with Device(10**9, -1) as lenient:
            for each in (values, lenient.put(values)):
                with pytest.raises(nacp.InputError) as told:
                    nacp.calibrate(each, given[: len(values)], **options, **more)
                said.append(str(told.value))
        assert said[0] == said[1]
    with pytest.raises(nacp.InputError, match="must lie from 0 to 119"):
        nacp.calibrate(device.put(probs), device.put(given + 1), **options)
    with pytest.raises(nacp.InputError, match=r"must be an array of numbers; found dtype torch\.complex64"):
        nacp.calibrate(device.put(probs + 0j), given, **options)


def test_a_python_function_is_refused_on_a_device(points, device):
    probs, _, ((noise, given), _) = points
    with pytest.raises(nacp.InputError, match=r"score is a Python function.*'lazy'.*pass probs.cpu\(\)"):
        nacp.calibrate(device.put(probs), given, noise=noise, score=lambda p: -p)
    with pytest.raises(nacp.InputError, match="score returned NaN"):
        tested.tally(device.put(np.eye(3)), Spec("pointwise", traced(lambda x: x.p / x.p)))
    logarithm = Spec("ranked", traced(lambda ranks: np.log1p(ranks.upto)))
    for verb in (tested.scores, tested.tally):
        with pytest.raises(nacp.InputError, match="a formula that NumPy alone evaluates"):
            verb(device.put(probs), logarithm)


def test_devices_that_will_not_do_are_told():
    apple = torch.Tensor._make_wrapper_subclass(Away, (9, 3), device=torch.device("mps"))
    for probs, labels, words in (
        (torch.empty((9, 3), device="meta"), [0] * 9, "probs is on the device 'meta', which has no numbers"),
        (np.eye(3), torch.empty(3, device="meta"), "labels is on the device 'meta', which has no numbers"),
        (apple, [0] * 9, r"'mps', which has no float64, in which.*pass probs.cpu\(\)"),
    ):
        with pytest.raises(nacp.InputError, match=words):
            nacp.calibrate(probs, labels, noise=0.1)


# On the host


def test_a_tensor_on_the_cpu_is_not_copied(points):
    probs, _, ((noise, given), _) = points
    held = torch.tensor(probs)
    opened = nacp.points.open_rows(held)
    assert np.shares_memory(opened[slice(0, 9)], held.numpy())
    cal = nacp.calibrate(held, given, noise=noise)
    assert cal == nacp.calibrate(probs, given, noise=noise)
    mask = cal.predict_mask(held)
    assert isinstance(mask, torch.Tensor)
    np.testing.assert_array_equal(mask.numpy(), cal.predict_mask(probs))
    np.testing.assert_array_equal(mask.numpy(), np.asarray(cal.predict_set(probs)))


def test_torch_is_imported_by_the_caller_only():
    code = (
        "import sys, nacp, numpy as np; probs = np.full((50, 4), .25);"
        "cal = nacp.calibrate(probs, np.arange(50) % 4, noise=.1, guarantee='none'); cal.predict_mask(probs);"
        "print('torch' in sys.modules); sys.modules['torch'] = None;"  # as if it were not installed
        "nacp.calibrate(probs, np.arange(50) % 4, noise=.1, guarantee='none');"
        "nacp.engine.using('torch').__enter__()"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert said.stdout.strip() == "False"
    last = said.stderr.splitlines()[-1]
    assert last == "ImportError: the engine torch needs PyTorch; pip install 'nacp[torch]'"
