"""``--speculative-config``: methods, draft tokens, lengths, and what the engine refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ArchitectureTraits
from kvplan_cli.settings.drafter import Drafter
from tests.settings.builders import llama, refusal, refused_in, resolved

HEAD: Final[Mapping[str, Any]] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 8192,
    "max_position_embeddings": 2048,
    "vocab_size": 128256,
}
DRAFT_MODEL: Final = {**HEAD, "architectures": ["LlamaForCausalLM"], "head_dim": 64}
GLM: Final = HfConfig(
    {
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "dtype": "bfloat16",
        "num_hidden_layers": 46,
        "num_attention_heads": 96,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_size": 4096,
        "max_position_embeddings": 131072,
        "num_nextn_predict_layers": 2,
    }
)
GLM_TRAITS: Final = ArchitectureTraits(architecture="Glm4MoeForCausalLM")


def drafter(config: HfConfig | None = None, **keys: Any) -> Drafter:
    settings = resolved(
        llama(vocab_size=128256) if config is None else config,
        speculative_config={"num_speculative_tokens": 3, **keys},
    )
    assert settings.drafter is not None
    return settings.drafter


def drafter_refused(**keys: Any) -> str:
    given = {"num_speculative_tokens": 3, **keys}
    given = {key: value for key, value in given.items() if value is not ...}
    return refused_in(llama(vocab_size=128256), speculative_config=given)


def test_no_speculation_is_no_drafter() -> None:
    settings = resolved()
    assert settings.drafter is None
    assert settings.num_speculative_tokens == settings.num_prefill_lookahead_tokens == 0


@pytest.mark.parametrize(
    ("keys", "method", "lookahead"),
    [
        ({"method": "ngram"}, "ngram", 0),
        ({"model": "[ngram]"}, "ngram", 0),
        ({"method": "eagle3", "model": HEAD}, "eagle3", 1),
        ({"method": "draft_model", "model": DRAFT_MODEL}, "draft_model", 0),
        ({"model": DRAFT_MODEL}, "draft_model", 0),
    ],
)
def test_method_and_lookahead(keys: dict[str, Any], method: str, lookahead: int) -> None:
    found = drafter(**keys)
    assert (found.method, found.num_prefill_lookahead_tokens) == (method, lookahead)


def test_a_name_tells_the_method_where_none_is_stated() -> None:
    settings = resolved(
        llama(vocab_size=128256),
        speculative_config={"num_speculative_tokens": 3, "model": HEAD},
        draft_name="someone/EAGLE3-Llama",
    )
    assert settings.speculative_method == "eagle3"


def glm(**keys: Any) -> dict[str, Any]:
    return {"traits": GLM_TRAITS, "speculative_config": {"method": "mtp", **keys}}


def test_modules_of_the_checkpoint_look_ahead_as_far_as_they_draft() -> None:
    settings = resolved(GLM, **glm(num_speculative_tokens=4))
    assert settings.num_prefill_lookahead_tokens == 4
    one = HfConfig({**GLM.values, "num_nextn_predict_layers": 1})
    assert resolved(one, **glm(num_speculative_tokens=4)).num_prefill_lookahead_tokens == 1


def test_modules_draft_in_steps_of_their_number() -> None:
    assert "must be divisible by n_predict=2" in refused_in(GLM, **glm(num_speculative_tokens=3))


def test_old_names_of_mtp_are_mtp() -> None:
    settings = resolved(
        GLM,
        traits=GLM_TRAITS,
        speculative_config={"method": "glm4_moe_mtp", "num_speculative_tokens": 2},
    )
    assert settings.speculative_method == "mtp"


def test_a_model_without_modules_cannot_draft_by_itself() -> None:
    error = refusal(speculative_config={"method": "mtp", "num_speculative_tokens": 1})
    assert error.error_type == "NotImplementedError"
    assert error.message == "Unsupported speculative method: 'mtp'"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"method": "eagle3"}, "without speculative model"),
        ({"method": "eagle3", "model": HEAD, "num_speculative_tokens": ...}, "was not provided"),
        ({"method": "ngram", "num_speculative_tokens": ...}, "num_speculative_tokens must be"),
        ({"method": "ngram", "num_speculative_tokens": 0}, "greater than 0"),
        ({"method": "ngram", "prompt_lookup_min": 5, "prompt_lookup_max": 4}, "must be <="),
        ({"method": "nonsense"}, "method: Input should be 'ngram'"),
        ({"method": "ngram", "foo": 1}, "foo: Unexpected keyword argument"),
        ({"method": "ngram", "tensor_parallel_size": 1}, "draft_tensor_parallel_size"),
        ({"method": "eagle3", "model": HEAD, "max_model_len": 4096}, "greater than the derived"),
        ({"method": "eagle3", "model": HEAD, "draft_tensor_parallel_size": 2}, "other value"),
        (
            {"method": "draft_model", "model": {**DRAFT_MODEL, "vocab_size": 32000}},
            "same vocabulary size",
        ),
        ({"method": "ngram", "use_heterogeneous_vocab": True}, "only works with"),
    ],
)
def test_what_the_engine_refuses(keys: dict[str, Any], words: str) -> None:
    assert words in drafter_refused(**keys)


def test_suffix_decoding_needs_a_package_of_its_own() -> None:
    error = refusal(speculative_config={"method": "suffix", "num_speculative_tokens": 8})
    assert error.error_type == "ImportError"


def test_a_users_own_proposer_is_out_of_reach() -> None:
    with pytest.raises(UnplannableError, match="custom_class"):
        drafter(method="custom_class")


def test_hidden_states_are_counted_by_the_layers_that_keep_them() -> None:
    own = {"hf_config": {"eagle_aux_hidden_state_layer_ids": [1, 20, 40]}}
    found = drafter(method="extract_hidden_states", draft_model_config=own)
    assert found.num_hidden_states == 3
    assert found.num_lookahead_tokens == 0


def test_a_name_that_nobody_resolved_is_an_error() -> None:
    with pytest.raises(InputError, match="config is not at hand"):
        drafter(method="eagle3", model="org/head")


def test_a_short_draft_model_ends_the_target_too() -> None:
    keys = {"method": "draft_model", "num_speculative_tokens": 3, "model": DRAFT_MODEL}
    settings = resolved(llama(vocab_size=128256), speculative_config=keys)
    assert settings.max_model_len == 2048


def test_a_head_is_stretched_unless_its_positions_are_scaled() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
    for head, length in ((HEAD, 131072), ({**HEAD, "rope_scaling": yarn}, 2048)):
        keys = {"method": "eagle3", "num_speculative_tokens": 3, "model": head}
        assert resolved(speculative_config=keys).max_model_len == length


def test_a_step_has_room_for_drafts() -> None:
    keys = {"method": "eagle3", "num_speculative_tokens": 7, "model": HEAD}
    words = refused_in(speculative_config=keys, max_num_batched_tokens=7, max_num_seqs=4)
    assert "max_num_batched_tokens=7 and num_lookahead_tokens=7" in words


def test_n_grams_do_not_overlap_steps_on_the_older_runner() -> None:
    keys = {"method": "ngram", "num_speculative_tokens": 3}
    env = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    assert not resolved(speculative_config=keys, env=env).async_scheduling
    assert resolved(speculative_config=keys).async_scheduling


def test_parallel_drafting_falls_back_to_the_older_runner() -> None:
    keys = {
        "method": "eagle3",
        "num_speculative_tokens": 3,
        "model": HEAD,
        "parallel_drafting": True,
    }
    assert not resolved(speculative_config=keys).use_v2_model_runner
    words = refused_in(speculative_config=keys, env={"VLLM_USE_V2_MODEL_RUNNER": "1"})
    assert words.startswith("Model Runner V2 does not yet support: parallel drafting")
