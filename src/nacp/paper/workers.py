"""The settings of experiments computed by other processes."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import TypeAlias

from nacp.paper.experiments import Experiment, Run, Setting
from nacp.paper.results import cell, results_of

Share: TypeAlias = Callable[[str, float], object]

_POLL_SECONDS = 0.2
_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
_done: "Synchronized[int] | None" = None  # in a worker: the number of splits that all workers have done


def compute(
    experiments: Sequence[Experiment],
    run: Run,
    cells: Path,
    workers: int = 1,
    progress: Share | None = None,
) -> Generator[Experiment, None, None]:
    """Yield each experiment as soon as the results of its settings are kept; work goes on meanwhile.

    The results do not depend on the number of workers, nor on that of cores. If the generator is closed
    early, the workers end, and what was finished stays.

    Parameters
    ----------
    experiments : sequence of Experiment
        What to run.
    run : Run
        That they were made with.
    cells : Path
        The folder of results that are kept.
    workers : int, default=1
        The number of processes besides this one. They import the main module, so a script that asks for them
        must not do so when it is imported.
    progress : callable, optional
        Called with the title of a setting under way and the share of all splits that have been done.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from nacp.paper.experiments import Experiment, Run, table1
    >>> from nacp.paper.workers import compute
    >>> run = Run(splits=5)
    >>> first = Experiment("first", "The first row of Table 1", table1(run).settings[:1])
    >>> with TemporaryDirectory() as folder:
    ...     [experiment.name for experiment in compute([first], run, Path(folder))]
    ['first']
    """
    by_cell = {cell(setting, run, cells)[0]: setting for e in experiments for setting in e.settings}
    total = sum(setting.splits for setting in by_cell.values())
    others = set(active_children())
    context = get_context("spawn")  # a fork of a process with threads may hang
    done = context.Value("q", 0)
    pool = ProcessPoolExecutor(workers, context, _start, (done,))
    try:
        with _one_thread():
            futures = {path: pool.submit(_work, setting, run, cells) for path, setting in by_cell.items()}
        for experiment in experiments:
            for setting in experiment.settings:
                future, waiting = futures[cell(setting, run, cells)[0]], True
                while waiting:
                    waiting = not wait([future], _POLL_SECONDS).done
                    if progress is not None:
                        progress(setting.title, done.value / total)
                future.result()
            yield experiment
    except BaseException as error:
        for worker in set(active_children()) - others:
            worker.terminate()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                "a worker was ended from outside, perhaps for want of memory; what was finished is kept, and "
                "--workers 1 needs less"
            ) from None
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let new processes do linear algebra in one thread: the last bits of an inverse depend on how many."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(done: "Synchronized[int]") -> None:
    """Prepare a worker: an interruption is the parent's affair, and its end is the worker's."""
    global _done
    _done = done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(setting: Setting, run: Run, cells: Path) -> None:
    before = 0

    def report(_: str, splits: int) -> None:
        nonlocal before
        assert _done is not None
        with _done.get_lock():
            _done.value += splits - before
        before = splits

    results_of(setting, run, cells, report)
