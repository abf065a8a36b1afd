"""The alarm as it is stored: what a new one holds, what a restored one continues, and what is refused."""

import json

import numpy as np
import pytest

from nacp.stats.alarm import Alarm

FIELDS = ("bets", "growth", "lowest", "lowest_at", "lowest_total")


def alarm(numbers=()):
    found = Alarm(0.9, 1.5, 0.01)
    found.play(np.array(numbers, dtype=float))
    return found


def test_a_new_alarm_has_seen_nothing():
    numbers = {"n": 0, "total": 0.0, "before": 0.0, "wealth": 1.0, "highest": 1.0, "at": None, "since": None}
    assert alarm().to_dict() == numbers | dict.fromkeys(FIELDS, [0.0] * 8)


@pytest.mark.parametrize("cut", [0, 1, 40, 90, 200])
def test_a_restored_alarm_continues_as_if_it_had_not_stopped(cut):
    rng = np.random.default_rng(0)
    numbers = np.concatenate([rng.choice([0.8, 1.2], 60), rng.choice([0.2, 0.8], 140)])
    whole, again = alarm(numbers), alarm()
    again.restore(json.loads(json.dumps(alarm(numbers[:cut]).to_dict())))
    again.play(numbers[cut:])
    assert again.to_dict() == whole.to_dict()
    assert 40 <= whole.since <= 80 < whole.at < 200
    assert whole.before == pytest.approx(numbers[: whole.since].sum())
    assert whole.wealth <= whole.highest
    assert whole.highest >= 100


def test_only_states_that_can_occur_are_restored():
    state = alarm([0.5] * 10).to_dict()
    right = [{"at": 10, "since": 10}, {"at": 0, "since": 0}, {"n": 2**50}, {"highest": state["wealth"]}]
    for change in right:
        found = alarm()
        found.restore(state | change)
        assert found.to_dict() == state | change
    wrong = [
        {"at": 11, "since": 3},
        {"at": 3, "since": 4},
        {"at": 3, "since": None},
        {"at": None, "since": 3},
    ]
    wrong += [{"n": 2**50 + 1}, {"highest": 0.99, "wealth": 0.5}, {"highest": 1.5, "wealth": 1.6}]
    wrong += [{"growth": [float("nan")] * 8}, {"total": float("inf")}]
    for change in wrong:
        with pytest.raises(ValueError, match=r"."):
            alarm().restore(state | change)
