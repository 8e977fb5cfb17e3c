"""Many answers about one model: steps whose inputs have not changed are not taken again."""

from __future__ import annotations

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.engine_rules import EngineRules
from kvplan_cli.gpus import Gpu
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.recall import Recall
from kvplan_cli.resolution import ResolvedModel
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.settings.resolved import ResolvedSettings


def recalling() -> Recall:
    """For ``answer_for``: the flags, settings and card that differ between questions."""
    return Recall(
        Inputs, EngineArgs, EngineRules, Gpu, ResolvedModel, ResolvedSettings, PlannerSettings
    )
