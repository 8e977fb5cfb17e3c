"""From ``--speculative-config`` to the drafter, and what the engine refuses on the way.

The order is the engine's: the first rule that fails is the one it prints.
Source: vLLM 0.33.0 ``vllm/config/speculative.py`` (``__post_init__``, ``_verify_args``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.detection import detected_method, head_names
from kvplan_cli.models.drafters.heads import HEADS
from kvplan_cli.models.drafters.modules import Modules, own_modules
from kvplan_cli.models.drafters.speculators import as_plain, is_speculators
from kvplan_cli.models.refusals import refuse
from kvplan_cli.models.registry import find_architecture
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.attention_backend import attention_backend
from kvplan_cli.settings.drafter import EXTRACTION, Drafter
from kvplan_cli.settings.heads import total_attention_heads
from kvplan_cli.settings.kv_dtype import has_kv_cache_scheme
from kvplan_cli.settings.max_len import max_model_len
from kvplan_cli.settings.quantization import checkpoint_quantization, quantization_method
from kvplan_cli.settings.refusal import refuses
from kvplan_cli.settings.rope import rope_scalings
from kvplan_cli.settings.speculative_keys import SpeculativeKeys, read_keys
from kvplan_cli.values import dataclass

# How errors name the draft model's config.
DRAFT_PLACE: Final = "speculative_config.model"
# Kinds of rotary positions that a longer table of them serves as well.
_STRETCHED: Final = frozenset({"default", "linear", "llama3", "ntk", "proportional"})
# Families of MTP modules that the engine names by itself, older names of ``mtp``.
_MTP: Final = "mtp"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftTarget:
    """What a drafter is told of the model that it drafts for.

    config: the whole config. max_model_len: tokens. quantization: the engine's method.
    """

    config: HfConfig
    extra_files: Mapping[str, Any]
    max_model_len: int
    quantization: str | None


def resolve_drafter(
    args: EngineArgs, given: Mapping[str, Any], target: DraftTarget, gpu: Gpu
) -> Drafter:
    """The drafter that ``given``, the speculative config, asks for.

    A ``model`` must be its config by now. Raises
    EngineRefusalError where the engine refuses, InputError, MissingFieldError,
    UnplannableError for drafters that kvplan has no row for.
    """
    keys = read_keys(given)
    if keys.method in ("ngram", "ngram_gpu"):
        keys.check_lookups()
        drafter = Drafter(method=keys.method, num_speculative_tokens=keys.required_tokens())
    elif keys.method == "suffix":
        raise _no_suffix_decoding()
    elif keys.method == EXTRACTION:
        drafter = _extraction(args, keys, target)
    elif keys.method == "custom_class":
        raise _unplanned_method(keys.method)
    elif keys.model is None and keys.num_speculative_tokens is None:
        raise refuses(_NO_TOKENS)
    else:
        drafter = _with_model(args, keys, target, gpu)
    keys.check_rest(drafter)
    return drafter


def _extraction(args: EngineArgs, keys: SpeculativeKeys, target: DraftTarget) -> Drafter:
    if args.pipeline_parallel_size > 1:
        raise refuses(
            "Pipeline parallelism is not supported for this model. Supported models implement "
            "the `SupportsPP` interface.",
            error_type="NotImplementedError",
        )
    return Drafter(
        method=EXTRACTION,
        num_speculative_tokens=keys.required_tokens(),
        config=target.config,
        architectures=("ExtractHiddenStatesModel",),
        num_hidden_states=keys.num_hidden_states,
    )


# A checkpoint whose modules draft blocks, and its class: the language part's keys are its own.
_DSPARK_ONLY: Final = "deepseek_v41"
_NO_CLASSIC_MODULES: Final = (
    "DeepSeek V4.1 has no classic-MTP draft: its checkpoints ship DSpark stages under mtp.* "
    "(main_proj/markov_head/confidence_head) and carry no e_proj/h_proj/enorm/hnorm/hc_head "
    "weights. Use speculative method 'dspark' instead of 'mtp'."
)


def _own_config(target: DraftTarget) -> HfConfig:
    """The target's config as its drafting layers read it."""
    if target.config.optional_text("model_type") != _DSPARK_ONLY:
        return target.config
    # Imported rarely: no other checkpoint nests what drafts at its root.
    from kvplan_cli.models.deepseek_v41 import as_its_class_has_it

    return as_its_class_has_it(target.config)


def _draft_config(model: Mapping[str, Any]) -> HfConfig:
    config = HfConfig(model, DRAFT_PLACE)
    return as_plain(config) if is_speculators(config) else config


_NO_TOKENS: Final = (
    "num_speculative_tokens must be provided with speculative model unless the draft model "
    "config contains an n_predict parameter."
)


def _with_model(args: EngineArgs, keys: SpeculativeKeys, target: DraftTarget, gpu: Gpu) -> Drafter:
    own = keys.model is not None
    if not own and keys.method not in (_MTP, "dspark"):
        raise refuses("num_speculative_tokens was provided but without speculative model.")
    config = _own_config(target) if keys.model is None else _draft_config(keys.model)
    files = args.draft_files if own else target.extra_files
    modules = own_modules(config)
    names = [str(name) for name in config.list("architectures")]
    length = _own_length(args, keys, config, target)
    method = detected_method(keys.method, args.draft_name, names, is_mtp=modules is not None)
    if method is None and config.optional_text("model_type") == _DSPARK_ONLY:
        raise refuses(_NO_CLASSIC_MODULES, way_out='give "method": "dspark"')
    if method is None:
        raise refuses(
            f"Unsupported speculative method: '{keys.method}'",
            error_type="NotImplementedError",
            way_out="this checkpoint has no modules that draft: name a draft model, or use ngram",
        )
    if method == _MTP and keys.num_speculative_tokens is None:
        # The engine compares the number before it would take the checkpoint's.
        raise refuses(
            "'>' not supported between instances of 'NoneType' and 'int'",
            error_type="TypeError",
            way_out='add "num_speculative_tokens": 1',
        )
    flag = keys.quantization or (None if own else target.quantization)
    checkpoint = checkpoint_quantization(config, files)
    quantization = quantization_method(checkpoint, flag, config.optional_text("model_type"), gpu)
    drafter = Drafter(
        method=method,
        num_speculative_tokens=_tokens(keys, method, config, modules),
        config=config,
        architectures=_architectures(method, config, modules),
        modules=modules,
        num_modules=(modules.chained(config) or 0) if modules is not None else 1,
        shares_positions=method != "draft_model" and _is_stretched(config, modules),
        attention_backend=attention_backend(keys.attention_backend),
        kv_cache_dtype=keys.kv_cache_dtype,
        quantization=quantization,
        has_kv_cache_scheme=has_kv_cache_scheme(quantization, checkpoint),
        parallel_drafting=keys.parallel_drafting,
        use_heterogeneous_vocab=keys.use_heterogeneous_vocab,
        disable_eagle_block_drop=keys.disable_eagle_block_drop,
        disable_padded_drafter_batch=keys.disable_padded_drafter_batch,
        fills_in=method == "dspark" and config.optional_boolean("sample_from_anchor") is False,
    )
    ranks = keys.draft_ranks(args.tensor_parallel_size)
    drafter = replace(drafter, max_model_len=keys.length_between(length, target.max_model_len))
    _check_fits(config, ranks)
    if method == "draft_model" and not keys.use_heterogeneous_vocab:
        _check_vocabularies(target.config, config)
    return drafter


def _own_length(
    args: EngineArgs,
    keys: SpeculativeKeys,
    config: HfConfig,
    target: DraftTarget,
) -> int:
    """Tokens that the draft model serves by its own config."""
    own = replace(args, max_model_len=keys.max_model_len, disable_sliding_window=False)
    return max_model_len(text_config(config), own, assumed=target.max_model_len)


def _tokens(keys: SpeculativeKeys, method: str, config: HfConfig, modules: Modules | None) -> int:
    given = keys.num_speculative_tokens
    if method == "dspark":
        if given is None:
            given = config.optional_integer("block_size") or config.optional_integer(
                "dspark_block_size"
            )
    elif modules is not None:
        if modules.architecture == "ParseAuxMTPModel" and given not in (None, 1):
            raise refuses("Parse 3.5 has only one trained MTP step", way_out="draft 1")
        predicted = modules.predicted(config)
        if predicted is not None:
            given = _in_steps_of(predicted, given)
    if given is None:
        raise refuses(
            "A speculative model was provided, but `num_speculative_tokens` was not provided",
            way_out='add "num_speculative_tokens": 3',
        )
    return given


def _in_steps_of(predicted: int, given: int | None) -> int:
    if given is None:
        return predicted
    if given > predicted and predicted == 0:
        raise refuses(
            "integer modulo by zero",
            error_type="ZeroDivisionError",
            way_out="the checkpoint has no drafting modules: leave --speculative-config out",
        )
    if given > predicted and given % predicted:
        raise refuses(
            f"num_speculative_tokens:{given} must be divisible by n_predict={predicted}",
            way_out=f"draft {given - given % predicted} or {given - given % predicted + predicted}",
        )
    return given


def _architectures(method: str, config: HfConfig, modules: Modules | None) -> tuple[str, ...]:
    """The engine's classes for the draft. Raises UnplannableError for unknown ones."""
    if method == _MTP and modules is not None:
        return (modules.architecture,)
    if method == "draft_model":
        return (find_architecture(config).architecture,)
    names = tuple(head_names(method, config, modules))
    if not any(name in HEADS for name in names):
        raise refuse(config, names, tuple(HEADS), drafts=True)
    return names


def _is_stretched(config: HfConfig, modules: Modules | None) -> bool:
    """Whether a longer table of rotary positions serves the target's length.

    The engine asks the config that it loads the draft from: of a wrapper, its root.
    """
    part = text_config(config) if modules is not None and modules.promotes_text else config
    return all(scaling.rope_type in _STRETCHED for scaling in rope_scalings(part))


def _check_fits(config: HfConfig, ranks: int) -> None:
    """The draft's own heads against its ranks; it is never split into stages."""
    text = text_config(config)
    heads = total_attention_heads(text)
    if heads % ranks:
        raise refuses(
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel "
            f"size ({ranks})."
        )


def _check_vocabularies(target: HfConfig, draft: HfConfig) -> None:
    sizes = [text_config(config).positive("vocab_size") for config in (target, draft)]
    if sizes[0] != sizes[1]:
        raise refuses(
            "Target and draft model should have the same vocabulary size. Target model "
            f"vocab_size={sizes[0]}. Draft model vocab_size={sizes[1]}. Using models with "
            "different tokenizers can cause out-of-bounds errors during speculative decoding.",
            way_out="take a draft model of the same family",
        )


def _no_suffix_decoding() -> Exception:
    return refuses(
        "Arctic Inference is required for suffix decoding. Install via "
        "`pip install arctic-inference==0.1.1`.",
        error_type="ImportError",
        way_out="with it installed, the cache is that of method ngram with as many "
        "num_speculative_tokens (24 where none are given) under VLLM_USE_V2_MODEL_RUNNER=0",
    )


def _unplanned_method(method: str) -> UnplannableError:
    return UnplannableError(
        Problem(
            where="--speculative-config: method",
            reason=f"kvplan does not plan {method}: what it caches is not in any config",
            way_out="leave it out to plan the model alone",
        )
    )
