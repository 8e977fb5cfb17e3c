"""The engine's flags that a plan feels: one table for the CLI, plan files and serve YAML.

Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:EngineArgs`` and its argument parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from kvplan_cli.values import dataclass


class FlagKind(Enum):
    """How a flag's value is written."""

    INTEGER = "integer"
    ENGINE_INTEGER = "integer, or with the engine's suffixes: 8k, 8K"
    LENGTH = "length: 131072, 128k, 128K, auto"
    SIZE = "size: 80GiB, 80GB, 1.5TB, bytes"
    NUMBER = "number"
    BOOLEAN = "switch"
    TEXT = "text"
    TEXTS = "list of texts"
    OBJECT = "JSON object"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of the engine.

    name: the field of EngineArgs. short: forms such as ``-tp``. minimum, maximum: legal
    bounds, both included (a NUMBER lies above its minimum). choices: the legal texts.
    aliases: further dashed names. keys: of an OBJECT, those that a plan reads; empty for all.
    """

    name: str
    kind: FlagKind
    help: str
    short: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def dashed(self) -> str:
        """The name as in serve YAML: ``tensor-parallel-size``."""
        return self.name.replace("_", "-")

    @property
    def option(self) -> str:
        """The name as on the command line: ``--tensor-parallel-size``."""
        return f"--{self.dashed}"

    @property
    def negations(self) -> tuple[str, ...]:
        """Dashed names that switch a BOOLEAN off, as the engine's parser takes them."""
        if self.kind is not FlagKind.BOOLEAN:
            return ()
        return negations(self.dashed)


def negations(dashed: str) -> tuple[str, ...]:
    """The engine's off-switches of a boolean: ``no-x``, and enable for disable.

    Source: vLLM 0.33.0 ``vllm/utils/argparse_utils.py:EnableDisableAction``.
    """
    for prefix, inverse in (("enable-", "disable-"), ("disable-", "enable-")):
        if dashed.startswith(prefix):
            return (f"no-{dashed}", inverse + dashed.removeprefix(prefix))
    return (f"no-{dashed}",)


# More ranks, tokens or blocks than this are mistakes, and would only cost time.
_MAX_RANKS: Final = 65_536
_MAX_COUNT: Final = 1 << 40


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DTYPES: Final = ("auto", "half", "float16", "bfloat16", "float", "float32")
KV_CACHE_DTYPES: Final = _words(
    """
    auto float16 bfloat16 fp8 fp8_e4m3 fp8_e5m2 fp8_inc fp8_ds_mla nvfp4_ds_mla turboquant_k8v4
    turboquant_4bit_nc turboquant_k3v4_nc turboquant_3bit_nc octave_k3v4 octave_k3v3
    octave_k3v3_compact ultraquant_4bit int4_per_token_head int8_per_token_head
    fp8_per_token_head nvfp4 nvfp4_4over6
    """
)
QUANTIZATIONS: Final = _words(
    """
    awq auto_awq fp8 fbgemm_fp8 fp_quant modelopt modelopt_fp4 modelopt_mxfp8 modelopt_mixed
    auto_gptq gptq gptq_marlin awq_marlin humming compressed-tensors experts_int8 quark
    moe_wna16 torchao inc mxfp4 gpt_oss_mxfp4 deepseek_v4_fp8 online fp8_per_tensor
    fp8_per_block fp8_per_channel int8_per_channel_weight_only nvfp4_per_token mxfp8
    """
)
ATTENTION_BACKENDS: Final = _words(
    """
    FLASH_ATTN FLASH_ATTN_DIFFKV TRITON_ATTN TRITON_ATTN_DIFFKV TRITON_FLASH_ATTN ROCM_ATTN
    ROCM_SEGMENTED_ATTN ROCM_AITER_MLA ROCM_AITER_TRITON_MLA ROCM_AITER_FA ROCM_AITER_MLA_SPARSE
    XPU_MLA_SPARSE TORCH_SDPA FLASHINFER TRITON_FLASHINFER FLASHINFER_MLA TOKENSPEED_MLA
    FLASHINFER_MLA_SPARSE FLASHINFER_MLA_SPARSE_SM120 FLASHINFER_MLA_SPARSE_SM90 TRITON_MLA
    CUTLASS_MLA FLASHMLA FLASHMLA_SPARSE FLASHMLA_SPARSE_DSV4 FLASHINFER_MLA_SPARSE_DSV4
    ROCM_FLASHMLA_SPARSE_DSV4 FLASHMLA_SPARSE_DSV41 FLASHINFER_MLA_SPARSE_DSV41
    ROCM_FLASHMLA_SPARSE_DSV41 FLASHMLA_MEGA_ATTN_DSV41 B12X FLASH_ATTN_MLA
    FLASH_ATTN_MLA_SPARSE FLASH_ATTN_MLA_SPARSE_FA4 MINIMAX_M3_SPARSE CUTLASS_MSA TRITON_MSA
    STEP5_DSA NO_ATTENTION FLEX_ATTENTION HPC_ATTN ROCM_AITER_UNIFIED_ATTN CPU_ATTN CPU_MLA
    AMX_MLA TURBOQUANT ROCM_OCTAVE ULTRAQUANT CUSTOM
    """
)
RUNNERS: Final = ("auto", "generate", "pooling", "draft")
MODEL_IMPLS: Final = ("auto", "vllm", "transformers", "terratorch")
STATE_DTYPES: Final = ("auto", "float32", "float16", "bfloat16")
LORA_RANKS: Final = ("1", "8", "16", "32", "64", "128", "256", "320", "512")
LORA_DTYPES: Final = ("auto", "float16", "bfloat16")
OPTIMIZATION_LEVELS: Final = ("0", "1", "2", "3")
GDN_PREFILL_BACKENDS: Final = ("flashinfer", "triton", "cutedsl", "aiter_flydsl", "sycl")
PERFORMANCE_MODES: Final = ("balanced", "interactivity", "throughput")
ALL2ALL_BACKENDS: Final = _words(
    """
    allgather_reducescatter deepep_high_throughput deepep_low_latency deepep_v2
    flashinfer_all2allv flashinfer_nvlink_one_sided flashinfer_nvlink_two_sided moonep
    mori_high_throughput mori_low_latency naive nixl_ep pplx
    """
)
# ``all`` is the engine's older word for ``align``; it still takes it.
MAMBA_CACHE_MODES: Final = ("none", "align", "all")


def _ranks(name: str, short: str, help: str) -> Flag:
    return Flag(
        name=name,
        kind=FlagKind.INTEGER,
        short=(short,),
        help=help,
        minimum=1,
        maximum=_MAX_RANKS,
    )


def _count(name: str, help: str, kind: FlagKind = FlagKind.INTEGER) -> Flag:
    return Flag(name=name, kind=kind, help=help, minimum=1, maximum=_MAX_COUNT)


def _switch(name: str, help: str, short: tuple[str, ...] = ()) -> Flag:
    return Flag(name=name, kind=FlagKind.BOOLEAN, short=short, help=help)


def _choice(name: str, choices: tuple[str, ...], help: str) -> Flag:
    return Flag(name=name, kind=FlagKind.TEXT, choices=choices, help=help)


def _object(name: str, help: str, short: tuple[str, ...] = ()) -> Flag:
    return Flag(name=name, kind=FlagKind.OBJECT, short=short, help=help)


FLAGS: Final = (
    _ranks("tensor_parallel_size", "-tp", "Ranks that share each layer."),
    _ranks("pipeline_parallel_size", "-pp", "Stages that share out the layers."),
    _ranks(
        "decode_context_parallel_size",
        "-dcp",
        "Ranks that share a sequence's tokens while decoding.",
    ),
    _count(
        "cp_kv_cache_interleave_size",
        "Tokens in a row that one rank stores under decode context parallelism.",
    ),
    _ranks(
        "prefill_context_parallel_size",
        "-pcp",
        "Ranks that share a sequence's tokens while prefilling.",
    ),
    _ranks("data_parallel_size", "-dp", "Copies of the engine; each plans its own cache."),
    _switch("enable_expert_parallel", "Place whole experts on ranks instead of slices.", ("-ep",)),
    _choice(
        "all2all_backend",
        ALL2ALL_BACKENDS,
        "How experts' tokens travel between copies; some have smaller steps by default.",
    ),
    Flag(
        name="max_model_len",
        kind=FlagKind.LENGTH,
        help="Longest request in tokens: 131072, 128k (128,000), 128K (131,072); "
        "auto or -1 for the longest that fits.",
    ),
    _choice("dtype", DTYPES, "Element type of weights and activations."),
    Flag(
        name="quantization",
        kind=FlagKind.TEXT,
        short=("-q",),
        choices=QUANTIZATIONS,
        help="How the weights are quantized; by default what the checkpoint says.",
    ),
    _choice("kv_cache_dtype", KV_CACHE_DTYPES, "Element type of the KV cache."),
    Flag(
        name="kv_cache_dtype_skip_layers",
        kind=FlagKind.TEXTS,
        help="Layers that keep the model's type: indices, or sliding_window.",
    ),
    _count("block_size", "Tokens in a block; by default the engine chooses."),
    Flag(
        name="gpu_memory_utilization",
        kind=FlagKind.NUMBER,
        minimum=0,
        maximum=1,
        aliases=("device-memory-utilization",),
        help="Share of the card's memory that the engine may use, above 0 and up to 1.",
    ),
    Flag(
        name="kv_cache_memory_bytes",
        kind=FlagKind.SIZE,
        help="Memory for the KV cache of each rank, used as it is.",
    ),
    _count("num_gpu_blocks_override", "Number of blocks, whatever the memory."),
    _count("max_num_batched_tokens", "Most tokens in one step (T).", kind=FlagKind.ENGINE_INTEGER),
    _count("max_num_seqs", "Most sequences in one step (R)."),
    _choice(
        "performance_mode",
        PERFORMANCE_MODES,
        "What the engine is tuned for; throughput doubles the default limits of a step.",
    ),
    _switch("enable_chunked_prefill", "Split long prompts over steps."),
    _switch("enable_prefix_caching", "Find equal prefixes of requests again."),
    _count("prefix_match_unit", "Tokens in a step of prefix hits; by default the engine chooses."),
    _switch("async_scheduling", "Schedule the next step while one runs."),
    _switch(
        "disable_hybrid_kv_cache_manager", "Let every layer keep all tokens, as full attention."
    ),
    Flag(
        name="attention_backend",
        kind=FlagKind.TEXT,
        choices=ATTENTION_BACKENDS,
        help="Attention backend; by default the engine chooses.",
    ),
    _switch("enforce_eager", "Run without CUDA graphs."),
    Flag(
        name="optimization_level",
        kind=FlagKind.INTEGER,
        choices=OPTIMIZATION_LEVELS,
        help="How much is compiled and captured; 0 runs without CUDA graphs.",
    ),
    Flag(
        name="compilation_config",
        kind=FlagKind.OBJECT,
        short=("-cc",),
        keys=("cudagraph_mode", "mode"),
        help="How the model is compiled; cudagraph_mode and mode are read.",
    ),
    _choice("mamba_cache_mode", MAMBA_CACHE_MODES, "How states are kept for prefix caching."),
    _count("mamba_block_size", "Tokens in a block of states."),
    _choice("mamba_cache_dtype", STATE_DTYPES, "Element type of states."),
    _choice("mamba_ssm_cache_dtype", STATE_DTYPES, "Element type of SSM states."),
    _choice("gdn_prefill_backend", GDN_PREFILL_BACKENDS, "Kernel of gated delta layers' prefills."),
    _choice("runner", RUNNERS, "What the model is run for."),
    _choice("model_impl", MODEL_IMPLS, "Whose classes run it: the engine's, or the library's own."),
    _object("speculative_config", "The drafter, as the engine takes it.", ("-sc",)),
    _object("hf_overrides", "Values that replace those of the model's config."),
    _object("limit_mm_per_prompt", "Most images, videos, audios of one prompt."),
    _switch("language_model_only", "Leave the encoders of a multimodal model out."),
    _switch("skip_mm_profiling", "Do not reserve memory for multimodal encoders."),
    _switch("disable_chunked_mm_input", "Never split a multimodal item over steps."),
    _switch("disable_sliding_window", "Cap the length at the window instead of sliding."),
    _switch("enable_lora", "Keep room for LoRA adapters beside the weights."),
    _count("max_loras", "Most LoRA adapters in one step."),
    Flag(
        name="max_lora_rank",
        kind=FlagKind.INTEGER,
        choices=LORA_RANKS,
        help="Highest rank of a LoRA adapter.",
    ),
    _choice("lora_dtype", LORA_DTYPES, "Element type of LoRA adapters; auto is the model's."),
    _switch("fully_sharded_loras", "Share both matrices of an adapter out over the ranks."),
    Flag(
        name="max_cpu_loras",
        kind=FlagKind.INTEGER,
        maximum=_MAX_COUNT,
        help="Most LoRA adapters in the host's memory.",
    ),
    Flag(
        name="revision",
        kind=FlagKind.TEXT,
        help="Branch, tag or commit of the hub's repository.",
    ),
)

FLAGS_BY_NAME: Final[Mapping[str, Flag]] = {flag.name: flag for flag in FLAGS}

# The engine folds these three into speculative_config.
# Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:create_speculative_config``.
SPECULATIVE_SHORTHANDS: Final[Mapping[str, str]] = {
    "spec-method": "method",
    "spec-model": "model",
    "spec-tokens": "num_speculative_tokens",
}
