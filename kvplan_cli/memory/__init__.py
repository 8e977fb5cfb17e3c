"""From a card's memory and a model's weights to the bytes left for the KV cache."""

from __future__ import annotations

from kvplan_cli.memory.budget import BudgetLine, Estimate, RankBudget, Source
from kvplan_cli.memory.ladder import rank_budgets
from kvplan_cli.memory.weights.count import count_weights, rank_tensors
from kvplan_cli.memory.weights.registry import described_architectures

__all__ = [
    "BudgetLine",
    "Estimate",
    "RankBudget",
    "Source",
    "count_weights",
    "described_architectures",
    "rank_budgets",
    "rank_tensors",
]
