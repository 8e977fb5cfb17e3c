"""Recurrent states and CUDA graphs: every request of a step needs a block for its state.

Source: vLLM 0.33.0 ``config/compilation.py`` (``resolve_cudagraph_mode_and_sizes``).
"""

from __future__ import annotations

from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.specs import MambaSpec


def with_captured_states(plan: Plan, max_num_seqs: int) -> Plan | Refusal:
    """The plan, or the refusal where graphs of ``max_num_seqs`` requests cannot be captured.

    Ask only where decoding is captured: an eager engine does not mind.
    """
    if max_num_seqs <= plan.num_blocks or not _keeps_states(plan):
        return plan
    return Refusal(
        kind=RefusalKind.TOO_FEW_STATES,
        error_type="ValueError",
        message=(
            f"max_num_seqs ({max_num_seqs}) exceeds available Mamba cache blocks "
            f"({plan.num_blocks}). Each decode sequence requires one Mamba cache block, so CUDA "
            f"graph capture cannot proceed. Please lower max_num_seqs to at most "
            f"{plan.num_blocks} or increase gpu_memory_utilization."
        ),
        max_model_len=plan.max_model_len,
        needed_blocks=max_num_seqs,
        available_blocks=plan.num_blocks,
        groups=plan.groups,
        warnings=plan.warnings,
    )


def _keeps_states(plan: Plan) -> bool:
    return any(
        isinstance(spec, MambaSpec) for group in plan.groups for spec in group.layers_by_spec
    )
