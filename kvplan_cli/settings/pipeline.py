"""Which decoder layers each pipeline stage holds.

Source: vLLM 0.33.0 ``vllm/distributed/utils.py:get_pp_indices``.
"""

from __future__ import annotations

from kvplan_cli.errors import EngineRefusalError


def stage_layers(
    num_hidden_layers: int, pipeline_parallel_size: int, partition: str | None = None
) -> tuple[range, ...]:
    """One range of layer indices a stage, first stage first.

    partition: ``VLLM_PP_LAYER_PARTITION``, layers a stage, comma-separated; None shares them
    evenly. Raises EngineRefusalError for a partition that does not add up.
    """
    if partition is None:
        counts = _even(num_hidden_layers, pipeline_parallel_size)
    else:
        counts = _explicit(num_hidden_layers, pipeline_parallel_size, partition)
    stages = []
    start = 0
    for count in counts:
        stages.append(range(start, start + count))
        start += count
    return tuple(stages)


def _even(num_hidden_layers: int, stages: int) -> list[int]:
    """A remainder goes to the later stages, but not to the last: it has the head as well."""
    share, rest = divmod(num_hidden_layers, stages)
    counts = [share] * stages
    for index in range(2, rest + 2):
        counts[-index] += 1
    return counts


def _explicit(num_hidden_layers: int, pp_size: int, partition: str) -> list[int]:
    try:
        counts = [int(layers) for layers in partition.split(",")]
    except ValueError:
        raise _refuses(f"Invalid partition string: {partition}") from None
    if len(counts) != pp_size:
        raise _refuses(f"len(partitions)={len(counts)} does not match pp_size={pp_size}.")
    if sum(counts) != num_hidden_layers:
        raise _refuses(
            f"sum(partitions)={sum(counts)} does not match num_hidden_layers={num_hidden_layers}."
        )
    return counts


def _refuses(message: str) -> EngineRefusalError:
    # The engine shares layers out while it builds the model, not while it resolves settings.
    return EngineRefusalError(stage="model_error", error_type="ValueError", message=message)
