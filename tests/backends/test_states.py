"""Recurrent states on a rank: shapes, types, checkpoints, and the blocks they share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan_cli.backends.plan import BackendPlan, layer_specs
from kvplan_cli.backends.states.checkpoints import (
    Checkpoints,
    PrefillKernel,
    layer_checkpoints,
    stage_alignment,
)
from kvplan_cli.backends.states.rows import layer_dtypes, model_dtypes, state_backend
from kvplan_cli.backends.states.shapes import rank_shapes
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    LinearAttentionState,
    Mamba1State,
    Mamba2State,
    RecurrentState,
    ShortConvState,
)
from kvplan_cli.models.shape import CacheLayer, ModelShape, RingLayer, StateLayer
from kvplan_cli.specs import (
    CircularBufferSpec,
    FullAttentionSpec,
    MambaCacheMode,
    MambaSpec,
)
from tests.backends.builders import gpu, layer, settings

MAMBA1 = Mamba1State(intermediate_size=8192, state_size=16, conv_kernel=4)
MAMBA2 = Mamba2State(
    intermediate_size=1024, n_groups=1, num_heads=128, head_dim=8, state_size=256, conv_kernel=4
)
GDN = GatedDeltaState(num_k_heads=16, num_v_heads=32, head_k_dim=128, head_v_dim=128, conv_kernel=4)
CONV = ShortConvState(dim=2048, conv_kernel=3)
KDA = DeltaAttentionState(num_heads=32, head_dim=128, conv_kernel=4)
K3 = replace(KDA, own_backend=True, exports_checkpoints=True)
LINEAR = LinearAttentionState(num_heads=32, head_dim=64, norm_groups=4)


@pytest.mark.parametrize(
    ("state", "ranks", "shapes"),
    [
        (MAMBA1, 1, ((3, 8192), (8192, 16))),
        (MAMBA1, 4, ((3, 2048), (2048, 16))),
        (MAMBA2, 1, ((3, 1536), (128, 8, 256))),
        # One group: each rank has a copy.
        (MAMBA2, 2, ((3, 1024), (64, 8, 256))),
        (replace(MAMBA2, n_groups=8), 2, ((3, 2560), (64, 8, 256))),
        (GDN, 1, ((3, 8192), (32, 128, 128))),
        (GDN, 8, ((3, 1024), (4, 128, 128))),
        (CONV, 2, ((2, 1024),)),
        (replace(CONV, embeds=True), 2, ((2, 2048),)),
        (KDA, 2, ((3, 6144), (16, 128, 128))),
        (LINEAR, 4, ((8, 64, 64),)),
    ],
)
def test_a_ranks_share(
    state: RecurrentState, ranks: int, shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert rank_shapes(state, ranks) == shapes


@pytest.mark.parametrize(
    ("state", "window"),
    [(MAMBA1, 3), (MAMBA2, 6), (GDN, 6), (CONV, 5), (KDA, 6)],
)
def test_windows_keep_what_drafts_may_undo(state: RecurrentState, window: int) -> None:
    assert rank_shapes(state, 1, 3)[0][0] == window


@pytest.mark.parametrize(
    ("state", "ranks", "message"),
    [
        (MAMBA1, 3, "8192 is not divisible by 3"),
        (MAMBA2, 3, "Tensor parallel world size must divide num heads."),
        (
            replace(MAMBA2, n_groups=8),
            16,
            "If tensor parallel world size does not divide num_groups, then num_groups must equal "
            "1.",
        ),
        (GDN, 3, "8192 is not divisible by 3"),
        (GDN, 64, "32 is not divisible by 64"),
        (CONV, 3, "2048 is not divisible by 3"),
        (KDA, 3, ""),
        (LINEAR, 3, ""),
        (LINEAR, 8, "tp_size must be <= group_norm_size for local rms norm"),
        (replace(LINEAR, norm_groups=5), 4, "group_norm_size must be divisible by tp_size"),
    ],
)
def test_shares_with_a_rest(state: RecurrentState, ranks: int, message: str) -> None:
    with pytest.raises(EngineRefusalError) as caught:
        rank_shapes(state, ranks)
    assert (caught.value.error_type, caught.value.message) == ("AssertionError", message)


HALF, SINGLE = DType.BFLOAT16, DType.FLOAT32


@pytest.mark.parametrize(
    ("state", "window", "recurrent", "dtypes"),
    [
        (MAMBA1, "auto", "auto", (HALF, HALF)),
        (MAMBA2, "auto", "float32", (HALF, SINGLE)),
        (GDN, "float32", "auto", (SINGLE, SINGLE)),
        (GDN, "float16", "float32", (DType.FLOAT16, SINGLE)),
        (CONV, "float32", "bfloat16", (SINGLE,)),
        (LINEAR, "auto", "float32", (HALF,)),
        # Delta attention keeps its state in single precision unless told otherwise.
        (KDA, "auto", "auto", (HALF, SINGLE)),
        (KDA, "auto", "bfloat16", (HALF, HALF)),
        (replace(KDA, layer_reads_dtype=False), "auto", "bfloat16", (HALF, SINGLE)),
    ],
)
def test_element_types(
    state: RecurrentState, window: str, recurrent: str, dtypes: tuple[DType, ...]
) -> None:
    chosen = settings(mamba_cache_dtype=window, mamba_ssm_cache_dtype=recurrent)
    assert layer_dtypes(state, chosen) == dtypes


def test_layer_and_model_may_ask_differently() -> None:
    chosen = settings(mamba_ssm_cache_dtype="bfloat16")
    kimi = replace(KDA, layer_reads_dtype=False)
    assert (layer_dtypes(kimi, chosen), model_dtypes(kimi, chosen)) == (
        (HALF, SINGLE),
        (HALF, HALF),
    )


def test_a_type_that_delta_attention_does_not_take() -> None:
    with pytest.raises(EngineRefusalError, match="got float16"):
        layer_dtypes(KDA, settings(mamba_ssm_cache_dtype="float16"))


def test_a_full_rank_gate_has_a_backend_of_its_own() -> None:
    assert state_backend(K3).backend.name == "KIMI_K3_KDA"
    assert state_backend(K3).mamba_type == state_backend(GDN).mamba_type


def kernel(capability: tuple[int, int], dtype: DType = HALF) -> PrefillKernel:
    return PrefillKernel(capability=capability, dtype=dtype)


@pytest.mark.parametrize(
    ("state", "capability", "aligned", "alignment"),
    [
        (GDN, (9, 0), True, 64),
        (GDN, (9, 0), False, None),
        (GDN, (8, 0), True, None),
        (GDN, (10, 0), True, 64),
        (GDN, (12, 0), True, 64),
        (replace(GDN, head_k_dim=64), (9, 0), True, 64),
        (replace(GDN, head_k_dim=64), (10, 0), True, None),
        (replace(GDN, exports_checkpoints=False), (9, 0), True, None),
        (MAMBA2, (9, 0), True, None),
        (K3, (9, 0), True, None),
    ],
)
def test_what_blocks_are_multiples_of(
    state: RecurrentState, capability: tuple[int, int], aligned: bool, alignment: int | None
) -> None:
    assert stage_alignment([state, state], kernel(capability), aligned=aligned) == alignment


def test_one_layer_that_cannot_export_stops_all() -> None:
    assert stage_alignment([GDN, CONV], kernel((9, 0)), aligned=True) is None
    assert stage_alignment([], kernel((9, 0)), aligned=True) == 1


NONE = Checkpoints()


@pytest.mark.parametrize(
    ("state", "capability", "dtype", "on_stage", "expected"),
    [
        (MAMBA2, (8, 0), HALF, None, Checkpoints(num_blocks=1, alignment=1)),
        (GDN, (9, 0), HALF, 64, Checkpoints(num_blocks=1, alignment=576)),
        (GDN, (9, 0), HALF, None, NONE),
        (GDN, (8, 0), HALF, 1, NONE),
        (K3, (9, 0), HALF, None, Checkpoints(num_blocks=1, alignment=16)),
        (K3, (9, 0), DType.FLOAT16, None, NONE),
        (K3, (8, 9), HALF, None, NONE),
        (replace(K3, head_dim=64), (9, 0), HALF, None, NONE),
        (KDA, (9, 0), HALF, None, NONE),
        (MAMBA1, (9, 0), HALF, None, NONE),
    ],
)
def test_what_a_layer_exports(
    state: RecurrentState,
    capability: tuple[int, int],
    dtype: DType,
    on_stage: int | None,
    expected: Checkpoints,
) -> None:
    given = layer_checkpoints(
        state, kernel(capability, dtype), on_stage=on_stage, mamba_block_size=576
    )
    assert given == expected


def state_layer(index: int, state: RecurrentState = MAMBA1) -> StateLayer:
    return StateLayer(name=f"model.layers.{index}.mixer", decoder_layer=index, state=state)


def hybrid(
    *layers: CacheLayer,
    state: RecurrentState = MAMBA1,
    args: EngineArgs | None = None,
    card: str = "H100",
    **changes: Any,
) -> BackendPlan:
    """The plan of a hybrid; its attention layers have 4 KV heads of 128: 2048 bytes a token."""
    shape = ModelShape(
        architecture="JambaForCausalLM",
        num_hidden_layers=len(layers),
        layers=layers,
        block_states=(state,),
    )
    known: dict[str, Any] = {
        "is_hybrid": True,
        "mamba_cache_mode": "align",
        "mamba_block_size": 16,
    }
    return layer_specs(
        shape,
        settings(architecture="JambaForCausalLM", **(known | changes)),
        args or EngineArgs(),
        gpu(card),
        HfConfig({"vocab_size": 30720}),
    )


def only(answer: BackendPlan, kind: type[Any], stage: int = 0) -> Any:
    found = [spec for spec in answer.stages[stage].values() if isinstance(spec, kind)]
    assert len(set(found)) == 1
    return found[0]


# Bytes of MAMBA1 in two-byte elements.
STATE = 2 * (3 * 8192 + 8192 * 16)


def test_attention_blocks_grow_until_they_cover_a_state() -> None:
    answer = hybrid(state_layer(0), layer(1))
    # 311,296 bytes are 152 tokens; the next multiple of 16 is 160.
    assert answer.block_size == 160
    assert only(answer, FullAttentionSpec).block_size == 160
    state = only(answer, MambaSpec)
    assert (state.block_size, state.page_size_padded) == (160, 160 * 2048)
    assert state.mamba_cache_mode is MambaCacheMode.ALIGN
    assert answer.backends[0] == {"MAMBA1_ATTN": 1, "FLASH_ATTN": 1}


def test_layers_that_keep_more_than_blocks_are_sized_by() -> None:
    kimi = replace(KDA, layer_reads_dtype=False)
    with pytest.raises(EngineRefusalError, match="drop the flag") as caught:
        hybrid(state_layer(0, kimi), layer(1), state=kimi, mamba_ssm_cache_dtype="bfloat16")
    assert (caught.value.error_type, caught.value.message) == ("AssertionError", "")
    assert hybrid(state_layer(0, kimi), layer(1), state=kimi).stages


def test_uncached_states_stand_for_the_whole_length() -> None:
    answer = hybrid(state_layer(0), layer(1), mamba_cache_mode="none", mamba_block_size=4096)
    state = only(answer, MambaSpec)
    assert (state.block_size, state.page_size_padded) == (4096, 160 * 2048)
    assert answer.block_size == 160


@pytest.mark.parametrize(("asked", "block_size"), [(64, 192), (160, 160), (1024, 1024)])
def test_a_given_block_size_is_a_step(asked: int, block_size: int) -> None:
    assert hybrid(state_layer(0), layer(1), block_size=asked).block_size == block_size


def test_a_page_that_fits_is_not_padded() -> None:
    # 152 tokens of 2048 bytes, were they a whole number of kernel blocks.
    fitting = Mamba1State(intermediate_size=8192, state_size=17, conv_kernel=4)
    assert 2 * 8192 * (3 + 17) == 160 * 2048
    answer = hybrid(state_layer(0, fitting), layer(1), state=fitting)
    assert only(answer, MambaSpec).page_size_padded is None


def test_checkpoints_align_blocks() -> None:
    answer = hybrid(state_layer(0, GDN), layer(1), state=GDN)
    page = 2 * (3 * 8192 + 32 * 128 * 128)
    assert -(-page // 2048) == 536
    # The next multiple of 64, which FlashInfer's prefill emits states at.
    assert answer.block_size == 576
    state = only(answer, MambaSpec)
    assert (state.num_prefill_checkpoint_blocks, state.prefill_checkpoint_alignment) == (1, 576)
    assert hybrid(state_layer(0, GDN), layer(1), state=GDN, card="A100").block_size == 544


def test_a_stage_without_attention_keeps_its_own_blocks() -> None:
    answer = hybrid(state_layer(0), state_layer(1), layer(2), layer(3), pipeline_parallel_size=2)
    state = only(answer, MambaSpec, stage=0)
    assert (state.block_size, state.page_size_padded) == (16, None)
    # The other stage is sized by the model's state, though it has none.
    assert only(answer, FullAttentionSpec, stage=1).block_size == 160


def test_states_alone() -> None:
    shape = ModelShape(
        architecture="MambaForCausalLM", num_hidden_layers=1, layers=(state_layer(0),)
    )
    answer = layer_specs(
        shape,
        settings(architecture="MambaForCausalLM", mamba_block_size=4096),
        EngineArgs(),
        gpu(),
        HfConfig({"vocab_size": 32000}),
    )
    state = only(answer, MambaSpec)
    assert (state.block_size, state.page_size_bytes) == (4096, STATE)
    assert answer.block_size == 16


def test_skipped_layers_and_states_share_one_page() -> None:
    args = EngineArgs(kv_cache_dtype_skip_layers=("1",))
    answer = hybrid(
        state_layer(0, CONV), layer(1), layer(2), state=CONV, args=args, cache_dtype="fp8"
    )
    pages = {spec.page_size_bytes for spec in answer.stages[0].values()}
    assert only(answer, MambaSpec).page_size_padded in pages


def test_drafts_need_states_of_their_own() -> None:
    answer = hybrid(state_layer(0, CONV), layer(1), state=CONV, num_speculative_tokens=2)
    state = only(answer, MambaSpec)
    assert state.num_speculative_blocks == 2
    assert state.shapes == ((4, 2048),)


def test_batch_invariance_has_no_recurrence() -> None:
    args = EngineArgs(env={"VLLM_BATCH_INVARIANT": "1"})
    with pytest.raises(EngineRefusalError, match="not supported for MAMBA1_ATTN"):
        hybrid(state_layer(0), layer(1), args=args)


def ring(**changes: Any) -> RingLayer:
    plain = RingLayer(
        name="model.layers.1.self_attn.indexer.raw_key_cache",
        decoder_layer=1,
        backend="QWEN4_EXP_EXP_QSA_STATE",
        pool=16,
        head_size=128,
        position_elements=12,
        num_kv_heads=4,
    )
    return replace(plain, **changes)


@pytest.mark.parametrize(
    ("changes", "drafts", "capacity"),
    [
        ({}, 0, 16),
        ({}, 3, 32),
        ({}, 17, 48),
        ({"backend": "KPOOL_TAIL", "doubling": True}, 0, 16),
        ({"backend": "KPOOL_TAIL", "doubling": True}, 17, 64),
    ],
)
def test_rings_hold_a_pool_and_the_drafts(
    changes: dict[str, Any], drafts: int, capacity: int
) -> None:
    answer = hybrid(
        state_layer(0),
        ring(**changes),
        layer(1),
        num_speculative_tokens=drafts,
        block_size=192,
    )
    assert only(answer, CircularBufferSpec).block_size == capacity


def test_positions_are_kept_where_there_is_something_to_see() -> None:
    seeing = hybrid(state_layer(0), ring(), layer(1))
    reading = hybrid(state_layer(0), ring(), layer(1), args=EngineArgs(language_model_only=True))
    assert only(seeing, CircularBufferSpec).head_size == 140
    assert only(reading, CircularBufferSpec).head_size == 128


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dtype": DType.FLOAT16}, "requires BF16"),
        ({"cache_dtype": "fp8_e5m2"}, "requires a BF16 or FP8-e4m3 main KV cache"),
        ({"decode_context_parallel_size": 2}, "does not support context parallelism"),
        ({"tensor_parallel_size": 3}, "QSA KV heads must be divisible by TP size"),
        ({"tensor_parallel_size": 6}, "TP size must be divisible by replicated QSA KV heads"),
        ({"block_size": 24}, "must be divisible by the compression ratio"),
    ],
)
def test_what_an_indexer_of_pooled_keys_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineRefusalError, match=message):
        hybrid(ring(decoder_layer=0), layer(0), state_layer(1), **changes)
