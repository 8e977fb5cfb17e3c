"""How long a context do eight users get, and on how many cards?"""

import kvplan_cli

answer = kvplan_cli.fit("gemma-3-27b", gpu="h100", max_model_len="32k", language_model_only=True)
print(answer.verdict.answer, answer.verdict.at_low.max_concurrency_requests)

for ranks in (1, 2, 4):
    found = kvplan_cli.solve(
        "gemma-3-27b",
        "max-model-len",
        concurrency=8,
        gpu="h100",
        language_model_only=True,
        tensor_parallel_size=ranks,
    )
    print(ranks, found.value)

table = kvplan_cli.sweep(
    "gemma-3-27b",
    {"tensor_parallel_size": [1, 2, 4], "kv_cache_dtype": ["auto", "fp8"]},
    gpu="h100",
    max_model_len="128K",
    language_model_only=True,
    where=["max_concurrency>=8"],
    sort="gpus",
)
for row in table.rows:
    print(row.values, row.max_concurrency_requests)

try:
    kvplan_cli.fit("gemma-3-27b", kv_mem="40")
except kvplan_cli.InputError as error:
    print(error)
