# Two numbers in a script: the lowest utilization at which eight users fit, the longest context.
set -e
common="gpt-oss-20b --gpu h100"
util=$(kvplan solve $common --max-model-len 128k --concurrency 8 --for gpu-memory-utilization --quiet)
echo "gpu-memory-utilization $util"
longest=$(kvplan fit $common --gpu-memory-utilization "$util" --get longest_context_tokens)
echo "longest context $longest"
kvplan fit $common --max-model-len 128k --gpu-memory-utilization "$util" --emit serve 2>/dev/null
