"""The engine's other serve flags, by what they change.

Which flags there are says the engine's parser (``engine_flags.json``); what each changes was
read in vLLM 0.33.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Which of a model's two configs is read.
CONFIG_FORMAT: Final = "config-format"
# They change how the cache is laid out or shared out, and kvplan does not model them: refused,
# but for values that change nothing.
PLAN_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    # The kernels of states can be chosen in it.
    "additional-config": ("{}",),
    "attention-config": (),
    CONFIG_FORMAT: ("auto", "hf"),
    "convert": ("auto", "none"),
    "diffusion-config": (),
    "enable-mamba-shared-prefix-checkpoint": ("False",),
    "engram-config": (),
    "hf-config-path": (),
    "kda-prefill-backend": ("auto",),
    "kv-offloading-size": (),
    "kv-transfer-config": (),
    "mm-encoder-only": ("False",),
    "model-class-overrides": (),
    "pooler-config": (),
    "replayssm-buffer-len": ("16",),
    "swa-bounded-replay": ("True",),
    "use-replayssm": ("False",),
    "worker-cls": ("auto",),
}

# They change what is left for the cache, and the estimate is made without them: accepted with a
# note.
MEMORY_FLAGS: Final = _words(
    """
    aux-output-config cpu-offload-gb cpu-offload-params cudagraph-capture-sizes dcp-q-replicate
    default-mm-loras enable-dbo enable-elastic-ep enable-eplb enable-hc-sp
    enable-mixed-moe-lora-format enable-moe-shared-loras enable-prompt-embeds
    enable-return-routed-experts enable-tower-connector-lora eplb-config kernel-config
    kv-sharing-fast-prefill linear-backend load-format lora-target-modules mamba-backend
    max-cudagraph-capture-size max-lora-cls-labels mm-encoder-tp-mode mm-ipc-gpu-memory-gb
    mm-processor-kwargs moe-backend offload-backend offload-group-size offload-num-in-group
    offload-params offload-prefetch-step quantization-config specialize-active-lora ubatch-size
    """
)

# They do not touch the KV cache plan: accepted.
IRRELEVANT_FLAGS: Final = _words(
    """
    aggregate-engine-logging allow-credentials
    allow-deprecated-quantization allowed-headers allowed-local-media-path allowed-media-domains
    allowed-methods allowed-origins anthropic-disabled-thinking-effort api-key api-server-count
    chat-template chat-template-content-format code-revision cohere-format
    cohere-is-reasoning-model collect-detailed-traces
    cpu-distributed-timeout-seconds cudagraph-metrics custom-histogram-buckets
    data-parallel-address data-parallel-backend data-parallel-external-lb
    data-parallel-hybrid-lb data-parallel-multi-port-external-lb data-parallel-rank
    data-parallel-rpc-port data-parallel-size-local data-parallel-start-rank
    data-parallel-supervisor-port dbo-decode-token-threshold dbo-prefill-token-threshold
    dcp-comm-backend dcp-kv-cache-interleave-size default-chat-template-kwargs device-ids
    disable-access-log-for-endpoints disable-cascade-attn
    disable-custom-all-reduce disable-fastapi-docs disable-log-stats
    disable-nccl-for-dp-synchronization disable-uvicorn-access-log distributed-executor-backend
    distributed-timeout-seconds download-dir dp-supervisor-probe-failure-threshold
    dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval
    ec-manager-config ec-transfer-config elastic-ep-max-dp-size enable-auto-tool-choice
    enable-batch-sharded-sampling enable-cumem-allocator enable-ep-weight-filter
    enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune
    enable-force-include-usage enable-layerwise-nvtx-tracing enable-log-deltas
    enable-log-outputs enable-log-requests enable-logging-iteration-details
    enable-mamba-cache-stochastic-rounding enable-mfu-metrics
    enable-mm-embeds enable-nccl-comm-suspend enable-offline-docs
    enable-per-request-metrics enable-prompt-tokens-details enable-request-id-headers
    enable-scale-out enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode
    enable-ssl-refresh enable-tokenizer-info-endpoint enable-trace-replay
    exclude-tools-when-tool-choice-none expert-placement-strategy fail-on-environ-validation
    fault-tolerance-config fingerprint-mode fingerprint-value
    generation-config grpc grpc-port h11-max-header-count h11-max-incomplete-event-size headless
    hf-token host ignore-patterns interleave-mm-strings io-processor-plugin ir-op-priority
    jit-monitor-mode jit-monitor-verbose kda-decode-backend kv-cache-metrics
    kv-cache-metrics-sample kv-events-config kv-offloading-backend log-config-file
    log-error-stack log-level logging-config logits-processors logprobs-mode
    long-prefill-token-threshold long-prefill-token-threshold-adaptive lora-modules
    mamba-cache-philox-rounds mamba-ssu-algorithm master-addr master-port max-log-len
    max-logprobs max-num-active-seqs max-num-queued-reqs
    max-num-queued-tokens max-num-scheduled-tokens max-parallel-loading-workers media-io-kwargs
    middleware mm-device-do-normalize mm-encoder-attn-backend mm-encoder-attn-dtype
    mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path
    mm-hasher-algorithm mm-processor-cache-gb mm-processor-cache-type mm-processor-device
    mm-shm-cache-max-object-size-mb mm-tensor-ipc model-loader-extra-config monokernel nnodes
    node-rank numa-bind numa-bind-cpus numa-bind-nodes otlp-traces-endpoint
    override-generation-config per-request-spec-decode-metrics port prefill-schedule-interval
    prefix-cache-retention-interval prefix-caching-hash-algo profiler-config
    pt-load-map-location ray-workers-use-nsight reasoning-config reasoning-effort-map
    reasoning-parser reasoning-parser-plugin renderer-num-workers response-role
    return-sampling-mask return-tokens-as-token-ids root-path safetensors-load-strategy
    safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
    scheduler-reserve-full-isl scheduling-policy seed served-model-name
    show-hidden-metrics-for-version shutdown-timeout skip-tokenizer-init sleep-mode-backend
    sleep-mode-offload-cudagraph sleep-preserve-parameter-names sparse-indexer-topk-backend
    sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
    ssl-ciphers ssl-keyfile stream-interval structured-outputs-config tokenizer tokenizer-mode
    tokenizer-revision tokens-only tool-call-parser tool-parser-plugin tool-server
    tool-strict-level trust-remote-code trust-request-chat-template trust-request-mm-kwargs uds
    use-fp64-gumbel use-tqdm-on-load uvicorn-log-level video-pruning-method video-pruning-rate
    watchdog-config watermark watermark-config weight-transfer-config worker-extension-cls
    """
)
