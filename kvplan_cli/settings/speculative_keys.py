"""The keys of ``--speculative-config``, typed, with the rules that need nothing else.

Source: vLLM 0.33.0 ``vllm/config/speculative.py:SpeculativeConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.refusal import check_at_least, check_one_of, check_positive, refuses
from kvplan_cli.values import dataclass

_PLACE: Final = "--speculative-config"
METHODS: Final = (
    "ngram",
    "draft_model",
    "suffix",
    "custom_class",
    "eagle",
    "eagle3",
    "extract_hidden_states",
    "deepseek_mtp",
    "dots3_note_mtp",
    "mimo_mtp",
    "mimo_v2_mtp",
    "glm4_moe_mtp",
    "glm4_moe_lite_mtp",
    "glm_ocr_mtp",
    "ernie_mtp",
    "nemotron_h_mtp",
    "exaone_moe_mtp",
    "exaone4_5_mtp",
    "qwen3_next_mtp",
    "qwen4_exp_mtp",
    "qwen3_5_mtp",
    "longcat_flash_mtp",
    "bailing_hybrid_v3_mtp",
    "minimax_m3_mtp",
    "bailing_hybrid_mtp",
    "mtp",
    "kimi_k3_mtp",
    "pangu_ultra_moe_mtp",
    "step3p5_mtp",
    "step5_mtp",
    "hy_v3_mtp",
    "hy_v4_mtp",
    "gemma4_mtp",
    "inkling_mtp",
    "glm5_next_mtp",
    "dflash",
    "ngram_gpu",
    "dspark",
)
# Keys that touch no layer and no limit here: how drafts are sampled, judged and loaded.
_OTHER_KEYS: Final = frozenset(
    {
        "code_revision",
        "disable_lookahead_block_hashes",
        "draft_lm_head_quantization",
        "draft_model_config",
        "draft_load_config",
        "draft_sample_method",
        "dspark_draft_topk",
        "enable_adaptive_verification",
        "enforce_eager",
        "fly_entropy_threshold",
        "fly_entropy_top_k",
        "fly_window_size",
        "index_share_for_mtp_iteration",
        "moe_backend",
        "num_speculative_tokens_per_batch_size",
        "rejection_sample_method",
        "revision",
        "suffix_decoding_max_cached_requests",
        "suffix_decoding_max_spec_factor",
        "suffix_decoding_max_tree_depth",
        "suffix_decoding_min_token_prob",
        "synthetic_acceptance_length",
        "synthetic_acceptance_rates",
        "use_local_argmax_reduction",
        "xpress_topc",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeKeys:
    """What the user wrote. method: by the engine's rule where none is stated. model: the
    draft model's config, None where none is named. max_model_len: tokens. num_hidden_states:
    layers whose states are kept.
    """

    method: str
    model: Mapping[str, Any] | None
    num_speculative_tokens: int | None
    draft_tensor_parallel_size: int | None
    max_model_len: int | None
    quantization: str | None
    attention_backend: str | None
    kv_cache_dtype: str | None
    prompt_lookup_min: int | None
    prompt_lookup_max: int | None
    parallel_drafting: bool
    use_heterogeneous_vocab: bool
    disable_eagle_block_drop: bool
    disable_padded_drafter_batch: bool
    tensor_parallel_size: int | None
    num_hidden_states: int

    def required_tokens(self) -> int:
        """Raises EngineRefusalError where no number is given."""
        if self.num_speculative_tokens is None:
            raise refuses(
                "num_speculative_tokens must be provided with speculative model unless the "
                "draft model config contains an n_predict parameter."
            )
        return self.num_speculative_tokens

    def check_lookups(self) -> None:
        """Raises EngineRefusalError for n-grams whose shortest is longer than their longest."""
        low, high = self.prompt_lookup_min, self.prompt_lookup_max
        if low is not None and high is not None and low > high:
            raise refuses(f"prompt_lookup_min={low} must be <= prompt_lookup_max={high}")

    def draft_ranks(self, tensor_parallel_size: int) -> int:
        """Ranks that share the draft model out. Raises EngineRefusalError."""
        ranks = self.draft_tensor_parallel_size
        if ranks is None:
            return tensor_parallel_size
        if ranks not in (1, tensor_parallel_size):
            raise refuses(
                f"speculative_draft_tensor_parallel_size={ranks} cannot be other value than 1 "
                "or target model tensor_parallel_size"
            )
        return ranks

    def length_between(self, draft: int, target: int) -> int:
        """Tokens that the drafter serves, by its own length and the target's."""
        asked = self.max_model_len
        if asked is None:
            return min(draft, target)
        for name, limit in (("draft", draft), ("target", target)):
            if asked > limit:
                raise refuses(
                    f"speculative_max_model_len={asked} cannot be larger than "
                    f"{name}_max_model_len={limit}"
                )
        return asked

    def check_rest(self, drafter: Drafter) -> None:
        """The rules that the engine asks last. Raises EngineRefusalError."""
        if self.tensor_parallel_size is not None:
            raise refuses(
                "'tensor_parallel_size' is not a valid argument in the speculative_config. "
                "Please pass 'draft_tensor_parallel_size' instead."
            )
        if self.use_heterogeneous_vocab and drafter.method != "draft_model":
            raise refuses("use_heterogeneous_vocab only works with method='draft_model'")


def read_keys(given: Mapping[str, Any]) -> SpeculativeKeys:
    """Raises InputError for wrong types, EngineRefusalError for what the engine rejects."""
    values = {str(key).replace("-", "_"): value for key, value in given.items()}
    section = HfConfig(values, _PLACE)
    _check_known(values)
    model = values.get("model")
    tokens = section.optional_integer("num_speculative_tokens")
    check_positive("num_speculative_tokens", tokens)
    for key in ("draft_tensor_parallel_size", "max_model_len"):
        check_at_least(key, section.optional_integer(key), 1)
    stated = section.optional_text("method")
    check_one_of("method", stated, METHODS)
    return SpeculativeKeys(
        method=_method(stated, model),
        model=model if isinstance(model, Mapping) else None,
        num_speculative_tokens=tokens,
        draft_tensor_parallel_size=section.optional_integer("draft_tensor_parallel_size"),
        max_model_len=section.optional_integer("max_model_len"),
        quantization=section.optional_text("quantization"),
        attention_backend=section.optional_text("attention_backend"),
        kv_cache_dtype=section.optional_text("kv_cache_dtype"),
        prompt_lookup_min=section.optional_integer("prompt_lookup_min", minimum=1),
        prompt_lookup_max=section.optional_integer("prompt_lookup_max", minimum=1),
        parallel_drafting=bool(section.optional_boolean("parallel_drafting")),
        use_heterogeneous_vocab=bool(section.optional_boolean("use_heterogeneous_vocab")),
        disable_eagle_block_drop=bool(section.optional_boolean("disable_eagle_block_drop")),
        disable_padded_drafter_batch=bool(section.optional_boolean("disable_padded_drafter_batch")),
        tensor_parallel_size=section.optional_integer("tensor_parallel_size"),
        num_hidden_states=_num_hidden_states(section),
    )


def _num_hidden_states(section: HfConfig) -> int:
    """Of the config that the method extract_hidden_states is given outright."""
    outer = section.optional_section("draft_model_config")
    inner = outer.optional_section("hf_config") if outer is not None else None
    listed = inner.optional_list("eagle_aux_hidden_state_layer_ids") if inner is not None else None
    return len(listed or ())


def _method(stated: str | None, model: object) -> str:
    if stated is None:
        return "ngram" if model in ("ngram", "[ngram]") else "draft_model"
    # The engine keeps the families' old names for one method.
    return "mtp" if stated.endswith("_mtp") else stated


def _check_known(values: Mapping[str, Any]) -> None:
    known = _OTHER_KEYS | set(SpeculativeKeys.__slots__)
    unknown = sorted(set(values) - known)
    if unknown:
        raise refuses(f"{unknown[0]}: Unexpected keyword argument")
    model = values.get("model")
    if isinstance(model, str) and model not in ("ngram", "[ngram]"):
        raise InputError(
            Problem(
                where=f"{_PLACE}: model",
                reason=f"{model} is a name, and its config is not at hand",
                way_out="give the draft model's config.json as an object",
            )
        )
