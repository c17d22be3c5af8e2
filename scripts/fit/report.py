"""What docs/calibration.md states: the profile and its baselines on repositories that they have not seen.

Invariant: each pair is scored by a fit that left its whole repository out; formulas without a fit are scored as
they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from relay.airspace.profiles.calibrated import AHEAD, THRESHOLDS
from relay.airspace.profiles.formulas import FORMULAS
from relay.airspace.scan.recorded_pairs import Pair
from scripts.fit import scores
from scripts.fit.before import risk_before
from scripts.fit.design import Floats
from scripts.fit.model import NAMES, risk

if TYPE_CHECKING:
    from scripts.fit.airspace import Data

RANKING: dict[str, scores.Score] = {
    "auc": scores.auc,
    "ap": scores.average_precision,
    "recall_at_1pct": scores.recall_at,
}
UNLEVELLED = frozenset({"file leases", "logistic, unseen"})
LEVELS: dict[str, scores.Score] = {
    "ra_precision": scores.precision_above(THRESHOLDS.resolution),
    "ra_recall": scores.recall_above(THRESHOLDS.resolution),
    "ta_recall": scores.recall_above(THRESHOLDS.traffic),
    "ta_false_alarms": scores.alarms_above(THRESHOLDS.traffic),
}
#: Whose pairs, by the data's kinds.
GROUPS = {"people": ("merge", "pair"), "agents": ("agent", "mixed")}
#: The same of branches that were alive at one time, which is what lies ahead of a room.
ALIVE = {"people": ("pair",), "agents": ("agent", "mixed")}


def figures(data: Data, pairs: list[Pair]) -> dict[str, Any]:
    """Everything, by group (`people`, `agents`), by stage of the work (`full`, `early`) and by who scored; and what
    lies ahead (`ahead`)."""
    seen = data.fit()
    value = {name: data.fit(without=name) for name in np.unique(data.repos)}
    full, early = _unseen(data.full, data.repos, value), _unseen(data.early, data.early_repos, value)
    half = [pair for pair in pairs if pair.early is not None]
    kinds = {"full": np.array([pair.kind for pair in pairs]), "early": data.early_kinds}
    answer: dict[str, Any] = {group: {} for group in GROUPS}
    for stage, design, labels, repos, unseen in (
        ("full", data.full, data.labels, data.repos, full),
        ("early", data.early, data.early_labels, data.early_repos, early),
    ):
        sides = (
            [pair.full for pair in pairs] if stage == "full" else [pair.early for pair in half if pair.early]
        )
        nears = [pair.near for pair in sides]
        rows: dict[str, Floats] = {
            "calibrated, unseen": unseen,
            "calibrated, in sample": risk(design, seen),
            "file leases": design.shares.astype(float),
            "logistic, unseen": _logistic(design.plain, labels, repos),
        }
        for name, formula in FORMULAS.items():
            rows[name] = np.array(
                [formula.assess(pair.a, pair.b, near).risk for pair, near in zip(sides, nears, strict=True)]
            )
        for group, kinds_of_group in GROUPS.items():
            own = np.isin(kinds[stage], kinds_of_group)
            answer[group][stage] = {
                name: _scored(labels[own], risks[own], repos[own], levels=name not in UNLEVELLED)
                for name, risks in rows.items()
            }
            answer[group][stage]["by repository"] = {
                name: {
                    "pairs": int((repos == name).sum()),
                    "conflicts": int(labels[repos == name].sum()),
                    **_values(labels[repos == name], unseen[repos == name], {**RANKING, **LEVELS}),
                }
                for name in np.unique(repos[own])
            }
    answer["ahead"] = ahead(data, early)
    answer["spread of constants"] = {
        name: [round(min(each), 4), round(max(each), 4)]
        for name, each in zip(NAMES, zip(*value.values(), strict=True), strict=True)
    }
    answer["errors"] = _errors(pairs, full)
    return answer


def ahead(data: Data, unseen: Floats) -> dict[str, Any]:
    """Half-done pairs of branches alive at one time that git still merges: will they conflict? `gain`: what the AUC
    has over the profile before."""
    answer: dict[str, Any] = {}
    before = risk_before(data.early)
    for group, kinds in ALIVE.items():
        own = np.isin(data.early_kinds, kinds) & ~data.now
        labels, repos = data.early_labels[own], data.early_repos[own]
        asked: dict[str, scores.Score] = {
            "auc": scores.auc,
            "ap": scores.average_precision,
            "predicted_by_seen": lambda said, risks: float(risks.sum() / said.sum()),
            "precision": scores.precision_above(AHEAD),
            "recall": scores.recall_above(AHEAD),
            "alarms": scores.alarms_above(AHEAD),
        }
        rows = {"calibrated, unseen": unseen[own], "before": before[own]}
        answer[group] = {name: _by_score(labels, risks, repos, asked) for name, risks in rows.items()}
        answer[group]["pairs"], answer[group]["conflicts"] = len(labels), int(labels.sum())
        # One draw for both: what the interval is of is the difference.
        both = np.stack(list(rows.values()), axis=1)
        answer[group]["gain"] = _by_score(labels, both, repos, {"auc": _gain})
        answer[group]["told"] = {
            str(least): [int((unseen[own] >= least).sum()), int(labels[unseen[own] >= least].sum())]
            for least in (0.07, AHEAD, 0.15, 0.2, THRESHOLDS.traffic)
        }
    return answer


def _gain(labels: Floats, both: Floats) -> float:
    """AUC of the first column less that of the second."""
    return scores.auc(labels, both[:, 0]) - scores.auc(labels, both[:, 1])


def _by_score(labels: Floats, risks: Floats, repos: Any, asked: dict[str, scores.Score]) -> dict[str, Any]:
    values: dict[str, Any] = dict(_values(labels, risks, asked))
    values["interval"] = {
        name: [round(end, 4) for end in scores.interval(score, labels, risks, repos)]
        for name, score in asked.items()
    }
    return values


def _unseen(design: Any, repos: Any, value: dict[str, Floats]) -> Floats:
    risks = np.zeros(len(repos))
    for name, coefficients in value.items():
        risks[repos == name] = risk(design, coefficients)[repos == name]
    return risks


def _scored(labels: Floats, risks: Floats, repos: Any, *, levels: bool) -> dict[str, Any]:
    asked = {**RANKING, **(LEVELS if levels else {})}
    return _by_score(labels, risks, repos, asked)


def _values(labels: Floats, risks: Floats, asked: dict[str, Callable[..., float]]) -> dict[str, float]:
    return {name: round(score(labels, risks), 4) for name, score in asked.items()}


def _errors(pairs: list[Pair], risks: Floats) -> dict[str, list[str]]:
    """Whole work where a resolution advisory is wrong, and where one is missing."""
    above = risks >= THRESHOLDS.resolution
    return {
        "false resolution": [
            pair.id for pair, alarm in zip(pairs, above, strict=True) if alarm and not pair.conflict
        ],
        "missed": [pair.id for pair, alarm in zip(pairs, above, strict=True) if pair.conflict and not alarm],
    }


def _logistic(plain: Floats, labels: Floats, repos: Any, ridge: float = 5.0) -> Floats:
    """A logistic regression of 25 features with a ridge, each repository scored by the others' fit."""
    risks = np.zeros(len(labels))
    for name in np.unique(repos):
        others = repos != name
        mean, spread = plain[others].mean(axis=0), plain[others].std(axis=0) + 1e-9
        rows = np.c_[np.ones(len(plain)), (plain - mean) / spread]

        def loss(
            value: Floats, rows: Floats = rows[others], targets: Floats = labels[others]
        ) -> tuple[float, Floats]:
            score = rows @ value
            slopes = np.r_[0.0, value[1:]]
            wrong = 1.0 / (1.0 + np.exp(-score)) - targets
            total = np.logaddexp(0.0, score).sum() - targets @ score + ridge * (slopes @ slopes)
            return float(total), rows.T @ wrong + 2.0 * ridge * slopes

        value = minimize(loss, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B").x
        risks[~others] = 1.0 / (1.0 + np.exp(-(rows[~others] @ value)))
    return risks
