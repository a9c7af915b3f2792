#include "reprise/cli/vllm_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <functional>
#include <string>

#include "reprise/base/error.h"
#include "reprise/cli/log_environment.h"

namespace reprise::cli {
namespace {

constexpr VllmFlagSupport kNoEffect = VllmFlagSupport::no_effect;
constexpr VllmFlagSupport kOnly = VllmFlagSupport::only_equal;

// Reasons that several flags have in common.
constexpr std::string_view kOneDevice =
    "ranks divide heads, layers, experts or requests, and nothing else";
constexpr std::string_view kLauncher = "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT place ranks";
constexpr std::string_view kTextOnly = "models read text only";
constexpr std::string_view kPlainLora = "adapters are plain LoRA in the type of the model";
constexpr std::string_view kNoCode = "nothing is ever run from a model folder";
constexpr std::string_view kNoHub = "only `reprise pull` downloads; models are on this machine";
constexpr std::string_view kFixedExperts =
    "each rank keeps the experts that it loaded, which are neighbours";
constexpr std::string_view kNoTorch = "there is no PyTorch, and no Python worker";
constexpr std::string_view kCompiled = "the server is compiled; it has no Python web framework";
constexpr std::string_view kNoTransfer = "keys and values stay in this process";
constexpr std::string_view kNoOffload = "weights stay in memory";
constexpr std::string_view kAutoOnly = "the engine chooses the value";
constexpr std::string_view kOneKernel = "the engine chooses the kernels, or --tune measures them";
constexpr std::string_view kAnswerForm = "answers have OpenAI's form";
constexpr std::string_view kNoCohere = "Cohere's chat API is not served";
constexpr std::string_view kFloatStates = "states are float32";
constexpr std::string_view kSleepingGraphs =
    "sleep gives back weights, keys and values, and nothing else";
constexpr std::string_view kBlockPrefixes = "cached prefixes end at blocks, see --block-size";
constexpr std::string_view kPlacedThreads = "--cpu-threads-bind places the threads";
constexpr std::string_view kNoLateCompiling = "nothing is compiled while requests run";

constexpr std::array kFlags = {
    // Model
    VllmFlag{"convert", "", "KIND", kOnly, "auto|none|embed|classify", "write --runner"},
    VllmFlag{"tokenizer-mode",
             "",
             "MODE",
             kOnly,
             "auto|hf|slow|fast|mistral|deepseek_v32|deepseek_v4",
             "tokenizer.json, else tekken.json or tokenizer.model of the folder is read, and chats "
             "use its chat template or --chat-template"},
    VllmFlag{"trust-remote-code", "", "", kNoEffect, "", kNoCode},
    VllmFlag{"allowed-local-media-path", "", "DIR", kNoEffect, "", kTextOnly},
    VllmFlag{"allowed-media-domains", "", "NAMES", kNoEffect, "", kTextOnly},
    VllmFlag{"hf-config-path", "", "DIR", kOnly, "", "config.json of the model folder decides"},
    VllmFlag{"hf-token", "", "TOKEN", kNoEffect, "", kNoHub},
    VllmFlag{"code-revision", "", "NAME", kNoEffect, "", kNoCode},
    VllmFlag{"tokenizer-revision", "", "NAME", kNoEffect, "", kNoHub},
    VllmFlag{"safetensors-load-strategy", "", "NAME", kNoEffect, "", "every file is read once"},
    VllmFlag{"use-tqdm-on-load", "", "", kNoEffect, "", "progress shows on a terminal"},
    VllmFlag{"ignore-patterns", "", "NAMES", kNoEffect, "", kNoHub},
    VllmFlag{"pt-load-map-location", "", "NAME", kNoEffect, "", kNoTorch},
    VllmFlag{"model-loader-extra-config", "", "JSON", kOnly, "{}", "safetensors need no more"},
    VllmFlag{"config-format",
             "",
             "FORMAT",
             kOnly,
             "auto|hf|mistral",
             "config.json of the folder is read, not params.json"},
    VllmFlag{"allow-deprecated-quantization",
             "",
             "",
             kNoEffect,
             "",
             "weights are used as they are stored"},
    VllmFlag{"enforce-eager-draft",
             "",
             "",
             kOnly,
             "false",
             "write \"enforce_eager\": true in --speculative-config"},
    VllmFlag{
        "model-impl", "", "KIND", kOnly, "auto|vllm", "there is one implementation of each model"},
    VllmFlag{
        "override-attention-dtype", "", "TYPE", kOnly, "auto", "attention has the model's type"},
    VllmFlag{"enable-prompt-embeds", "", "", kOnly, "false", "prompts are text or tokens"},
    VllmFlag{"enable-sleep-mode",
             "",
             "",
             kNoEffect,
             "",
             "memory can always be released, by the routes of --dev"},
    VllmFlag{"disable-sliding-window", "", "", kOnly, "false", "the model's own window counts"},
    VllmFlag{"skip-tokenizer-init", "", "", kOnly, "false", "answers are text"},
    VllmFlag{"logits-processors", "", "NAMES", kOnly, "", kNoCode},
    VllmFlag{"logits-processor-pattern", "", "REGEX", kNoEffect, "", kNoCode},
    VllmFlag{"io-processor-plugin", "", "NAME", kOnly, "", kNoCode},
    VllmFlag{"max-seq-len-to-capture",
             "",
             "N",
             kNoEffect,
             "",
             "graphs depend on tokens per step, not on lengths"},
    VllmFlag{"logprobs-mode", "", "MODE", kOnly, "raw_logprobs", "logprobs are those of the model"},
    VllmFlag{"disable-async-output-proc", "", "", kNoEffect, "", "answers never wait for it"},
    VllmFlag{"reasoning-parser-plugin", "", "FILE", kOnly, "", kNoCode},
    VllmFlag{"model-class-overrides", "", "JSON", kOnly, "{}", kNoCode},
    VllmFlag{"quantization-config", "", "JSON", kOnly, "null", "write --quantization"},
    VllmFlag{"renderer-num-workers",
             "",
             "N",
             kNoEffect,
             "",
             "the server chooses the threads that read chats"},
    VllmFlag{"safetensors-prefetch-num-threads", "", "N", kNoEffect, "", "every file is read once"},
    VllmFlag{"safetensors-prefetch-block-size", "", "N", kNoEffect, "", "every file is read once"},
    VllmFlag{"enable-return-routed-experts", "", "", kOnly, "false", kAnswerForm},
    VllmFlag{"return-sampling-mask", "", "", kOnly, "false", kAnswerForm},
    VllmFlag{"aux-output-config", "", "JSON", kOnly, "null|{}", kAnswerForm},
    VllmFlag{"use-fp64-gumbel",
             "",
             "",
             kNoEffect,
             "",
             "tokens are drawn from probabilities, without Gumbel noise"},
    VllmFlag{
        "enable-trace-replay", "", "", kOnly, "false", "write --replay-log and `reprise replay`"},
    VllmFlag{"sleep-mode-offload-cudagraph", "", "", kNoEffect, "", kSleepingGraphs},
    VllmFlag{"sleep-preserve-parameter-names",
             "",
             "NAMES",
             kNoEffect,
             "",
             "waking reads all weights again"},
    VllmFlag{"enable-cumem-allocator", "", "", kNoEffect, "", kNoTorch},
    VllmFlag{"enable-nccl-comm-suspend", "", "", kNoEffect, "", kSleepingGraphs},
    VllmFlag{"reasoning-config",
             "",
             "JSON",
             kOnly,
             "null",
             "thinking has no budget of tokens; --reasoning-parser names the parser"},
    VllmFlag{"diffusion-config", "", "JSON", kOnly, "null", "no model here generates by diffusion"},
    VllmFlag{"engram-config", "", "JSON", kOnly, "null", "no model here has Engram tables"},
    VllmFlag{"watermark-config", "", "JSON", kOnly, "null", "answers have no watermark"},
    VllmFlag{"fail-on-environ-validation",
             "",
             "",
             kNoEffect,
             "",
             "the log names variables that mean nothing"},
    // Parallel
    VllmFlag{"data-parallel-rank", "-dpn", "N", kOnly, "0", kLauncher},
    VllmFlag{"data-parallel-start-rank", "-dpr", "N", kOnly, "0", kLauncher},
    VllmFlag{"data-parallel-size-local", "-dpl", "N", kOnly, "1", kLauncher},
    VllmFlag{"data-parallel-address", "-dpa", "ADDRESS", kNoEffect, "", kLauncher},
    VllmFlag{"data-parallel-rpc-port", "-dpp", "N", kNoEffect, "", kLauncher},
    VllmFlag{"data-parallel-backend", "-dpb", "NAME", kNoEffect, "", kOneDevice},
    VllmFlag{"data-parallel-hybrid-lb", "", "", kOnly, "false", kLauncher},
    VllmFlag{"data-parallel-external-lb", "", "", kOnly, "false", kLauncher},
    VllmFlag{"decode-context-parallel-size", "-dcp", "N", kOnly, "1", kOneDevice},
    VllmFlag{"prefill-context-parallel-size", "-pcp", "N", kOnly, "1", kOneDevice},
    VllmFlag{"nnodes", "", "N", kOnly, "1", kLauncher},
    VllmFlag{"node-rank", "", "N", kOnly, "0", kLauncher},
    VllmFlag{"master-addr", "", "ADDRESS", kNoEffect, "", kLauncher},
    VllmFlag{"master-port", "", "N", kNoEffect, "", kLauncher},
    VllmFlag{"headless", "", "", kOnly, "false", kLauncher},
    VllmFlag{"api-server-count", "-asc", "N", kOnly, "1", "one thread serves thousands of streams"},
    VllmFlag{"all2all-backend", "", "NAME", kNoEffect, "", "engines gather all rows, then add"},
    VllmFlag{"enable-eplb", "", "", kOnly, "false", kFixedExperts},
    VllmFlag{"eplb-config", "", "JSON", kOnly, "", kFixedExperts},
    VllmFlag{"expert-placement-strategy", "", "NAME", kOnly, "linear", kFixedExperts},
    VllmFlag{"enable-dbo", "", "", kOnly, "false", kOneDevice},
    VllmFlag{"dbo-decode-token-threshold", "", "N", kNoEffect, "", kOneDevice},
    VllmFlag{"dbo-prefill-token-threshold", "", "N", kNoEffect, "", kOneDevice},
    VllmFlag{"disable-custom-all-reduce",
             "",
             "",
             kNoEffect,
             "",
             "NCCL moves the data of all ranks on GPUs"},
    VllmFlag{"disable-nccl-for-dp-synchronization",
             "",
             "",
             kNoEffect,
             "",
             "engines agree on their steps on the host"},
    VllmFlag{"max-parallel-loading-workers", "", "N", kNoEffect, "", "weights are read in one go"},
    VllmFlag{"ray-workers-use-nsight", "", "", kNoEffect, "", kOneDevice},
    VllmFlag{"worker-cls", "", "NAME", kOnly, "auto", kNoTorch},
    VllmFlag{"worker-extension-cls", "", "NAME", kOnly, "", kNoTorch},
    VllmFlag{"data-parallel-multi-port-external-lb", "", "", kOnly, "false", kLauncher},
    VllmFlag{"data-parallel-supervisor-port", "", "N", kNoEffect, "", kLauncher},
    VllmFlag{"dp-supervisor-probe-interval-s", "", "X", kNoEffect, "", kLauncher},
    VllmFlag{"dp-supervisor-probe-timeout-s", "", "X", kNoEffect, "", kLauncher},
    VllmFlag{"dp-supervisor-probe-failure-threshold", "", "N", kNoEffect, "", kLauncher},
    VllmFlag{"dp-sync-interval", "", "N", kNoEffect, "", "engines agree on each step"},
    VllmFlag{"cpu-distributed-timeout-seconds",
             "",
             "N",
             kNoEffect,
             "",
             "--distributed-timeout-seconds counts"},
    VllmFlag{"numa-bind", "", "", kNoEffect, "", kPlacedThreads},
    VllmFlag{"numa-bind-nodes", "", "NUMBERS", kNoEffect, "", kPlacedThreads},
    VllmFlag{"numa-bind-cpus", "", "NUMBERS", kNoEffect, "", kPlacedThreads},
    VllmFlag{
        "device-ids", "", "IDS", kOnly, "", "write CUDA_VISIBLE_DEVICES=IDS before the command"},
    VllmFlag{"dcp-comm-backend", "", "NAME", kNoEffect, "", kOneDevice},
    VllmFlag{"dcp-q-replicate", "", "", kNoEffect, "", kOneDevice},
    VllmFlag{"dcp-kv-cache-interleave-size", "", "N", kNoEffect, "", kOneDevice},
    VllmFlag{"cp-kv-cache-interleave-size", "", "N", kNoEffect, "", kOneDevice},
    VllmFlag{"enable-hc-sp", "", "", kNoEffect, "", kOneDevice},
    VllmFlag{"enable-batch-sharded-sampling", "", "", kNoEffect, "", kOneDevice},
    VllmFlag{"enable-ep-weight-filter", "", "", kNoEffect, "", "a rank keeps only its own experts"},
    VllmFlag{"enable-shm-tensor-arena", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"ubatch-size",
             "",
             "N",
             kOnly,
             "0",
             "a step is not cut into micro-batches; its most tokens are --max-num-batched-tokens"},
    VllmFlag{"enable-elastic-ep", "", "", kOnly, "false", kFixedExperts},
    VllmFlag{"elastic-ep-max-dp-size", "", "N", kNoEffect, "", kFixedExperts},
    VllmFlag{"enable-fault-tolerance", "", "", kOnly, "false", "a rank that fails ends all ranks"},
    VllmFlag{
        "fault-tolerance-config", "", "JSON", kNoEffect, "", "a rank that fails ends all ranks"},
    // Cache
    VllmFlag{"swap-space", "", "GIB", kNoEffect, "", "preempted requests are computed again"},
    VllmFlag{"cpu-offload-gb", "", "GIB", kOnly, "0", kNoOffload},
    VllmFlag{"kv-cache-dtype-skip-layers", "", "NAMES", kOnly, "", "all layers have one type"},
    VllmFlag{
        "calculate-kv-scales", "", "", kOnly, "false", "scales are 1 or those of the checkpoint"},
    VllmFlag{
        "kv-sharing-fast-prefill", "", "", kOnly, "false", "no model here shares keys and values"},
    VllmFlag{"prefix-caching-hash-algo", "", "NAME", kNoEffect, "", "answers do not depend on it"},
    VllmFlag{"mamba-cache-dtype", "", "TYPE", kNoEffect, "", kFloatStates},
    VllmFlag{"mamba-ssm-cache-dtype", "", "TYPE", kNoEffect, "", kFloatStates},
    VllmFlag{"mamba-block-size", "", "N", kNoEffect, "", "states are in slots, not in blocks"},
    VllmFlag{"kv-offloading-size", "", "GIB", kOnly, "0", kNoTransfer},
    VllmFlag{"kv-offloading-backend", "", "NAME", kNoEffect, "", kNoTransfer},
    VllmFlag{"ec-transfer-config", "", "JSON", kOnly, "null", kNoTransfer},
    VllmFlag{"ec-manager-config", "", "JSON", kNoEffect, "", kTextOnly},
    VllmFlag{"mamba-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"mamba-ssu-algorithm", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"enable-mamba-cache-stochastic-rounding", "", "", kNoEffect, "", kFloatStates},
    VllmFlag{"mamba-cache-philox-rounds", "", "N", kNoEffect, "", kFloatStates},
    VllmFlag{"enable-mamba-shared-prefix-checkpoint", "", "", kNoEffect, "", kBlockPrefixes},
    VllmFlag{"prefix-match-unit", "", "N", kNoEffect, "", kBlockPrefixes},
    VllmFlag{
        "swa-bounded-replay", "", "", kNoEffect, "", "windows are cached like all keys and values"},
    VllmFlag{"use-replayssm", "", "", kNoEffect, "", kOneKernel},
    VllmFlag{"replayssm-buffer-len", "", "N", kNoEffect, "", kOneKernel},
    VllmFlag{"offload-backend", "", "NAME", kNoEffect, "", kNoOffload},
    VllmFlag{"cpu-offload-params", "", "NAMES", kNoEffect, "", kNoOffload},
    VllmFlag{"offload-group-size", "", "N", kOnly, "0", kNoOffload},
    VllmFlag{"offload-num-in-group", "", "N", kNoEffect, "", kNoOffload},
    VllmFlag{"offload-prefetch-step", "", "N", kNoEffect, "", kNoOffload},
    VllmFlag{"offload-params", "", "NAMES", kNoEffect, "", kNoOffload},
    // Multi-modal and adapters
    VllmFlag{"limit-mm-per-prompt", "", "JSON", kNoEffect, "", kTextOnly},
    VllmFlag{"media-io-kwargs", "", "JSON", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-processor-kwargs", "", "JSON", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-processor-cache-gb", "", "GIB", kNoEffect, "", kTextOnly},
    VllmFlag{"disable-mm-preprocessor-cache", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-processor-cache-type", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-shm-cache-max-object-size-mb", "", "N", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-tp-mode", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"interleave-mm-strings", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"skip-mm-profiling", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"video-pruning-rate", "", "X", kNoEffect, "", kTextOnly},
    VllmFlag{"language-model-only", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"enable-lora-bias", "", "", kOnly, "false", kPlainLora},
    VllmFlag{"lora-dtype", "", "TYPE", kNoEffect, "", kPlainLora},
    VllmFlag{"lora-extra-vocab-size", "", "N", kNoEffect, "", kPlainLora},
    VllmFlag{"fully-sharded-loras", "", "", kNoEffect, "", kOneDevice},
    VllmFlag{"default-mm-loras", "", "JSON", kOnly, "{}", kTextOnly},
    VllmFlag{"trust-request-mm-kwargs", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"enable-mm-embeds", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-only", "", "", kOnly, "false", kTextOnly},
    VllmFlag{"mm-encoder-attn-backend", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-attn-dtype", "", "TYPE", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-fp8-scale-path", "", "FILE", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-fp8-scale-save-path", "", "FILE", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-encoder-fp8-scale-save-margin", "", "X", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-hasher-algorithm", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-tensor-ipc", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-processor-device", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-ipc-gpu-memory-gb", "", "GIB", kNoEffect, "", kTextOnly},
    VllmFlag{"mm-device-do-normalize", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"video-pruning-method", "", "NAME", kNoEffect, "", kTextOnly},
    VllmFlag{"enable-tower-connector-lora", "", "", kOnly, "false", kTextOnly},
    VllmFlag{"lora-target-modules",
             "",
             "NAMES",
             kOnly,
             "",
             "an adapter changes all modules that it names"},
    VllmFlag{"max-lora-cls-labels", "", "N", kOnly, "", kPlainLora},
    VllmFlag{"enable-mixed-moe-lora-format", "", "", kOnly, "false", kPlainLora},
    VllmFlag{"enable-moe-shared-loras", "", "", kOnly, "false", kPlainLora},
    // Scheduler
    VllmFlag{"max-num-partial-prefills", "", "N", kOnly, "1", "one long prompt is cut at a time"},
    VllmFlag{"max-long-partial-prefills", "", "N", kOnly, "1", "one long prompt is cut at a time"},
    VllmFlag{
        "num-lookahead-slots", "", "N", kOnly, "0", "the number of drafts decides about the slots"},
    VllmFlag{"disable-chunked-mm-input", "", "", kNoEffect, "", kTextOnly},
    VllmFlag{"disable-hybrid-kv-cache-manager",
             "",
             "",
             kNoEffect,
             "",
             "all layers have one kind of cache"},
    VllmFlag{"scheduler-cls", "", "NAME", kOnly, "", kNoTorch},
    VllmFlag{
        "preemption-mode", "", "MODE", kOnly, "recompute", "preempted requests are computed again"},
    VllmFlag{"num-scheduler-steps", "", "N", kOnly, "1", "each step is scheduled"},
    VllmFlag{"performance-mode", "", "MODE", kOnly, "balanced", kAutoOnly},
    VllmFlag{"max-num-scheduled-tokens", "", "N", kOnly, "", "write --max-num-batched-tokens"},
    VllmFlag{"max-num-active-seqs", "", "N", kOnly, "", "write --max-num-seqs"},
    VllmFlag{"long-prefill-token-threshold-adaptive",
             "",
             "",
             kOnly,
             "false",
             "the threshold is one number"},
    VllmFlag{"scheduler-reserve-full-isl",
             "",
             "",
             kNoEffect,
             "",
             "a prompt gets its blocks step by step; requests without blocks are preempted"},
    VllmFlag{"watermark", "", "X", kOnly, "0|0.0", "requests may use all blocks"},
    VllmFlag{"prefill-schedule-interval", "", "N", kOnly, "1", "each step is scheduled"},
    // Speculation, structure, attention
    VllmFlag{"guided-decoding-disable-fallback", "", "", kNoEffect, "", "there is one backend"},
    VllmFlag{"guided-decoding-disable-additional-properties",
             "",
             "",
             kOnly,
             "false",
             "the schema decides"},
    VllmFlag{"additional-config", "", "JSON", kOnly, "{}", "there are no platform plug-ins"},
    VllmFlag{"ir-op-priority", "", "JSON", kNoEffect, "", kOneKernel},
    VllmFlag{"kernel-config", "", "JSON", kNoEffect, "", kOneKernel},
    VllmFlag{"enable-flashinfer-autotune", "", "", kNoEffect, "", kOneKernel},
    VllmFlag{"moe-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"linear-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"sparse-indexer-topk-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"gdn-prefill-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"kda-prefill-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"kda-decode-backend", "", "NAME", kNoEffect, "", kOneKernel},
    VllmFlag{"enable-flash-late-interaction", "", "", kNoEffect, "", kOneKernel},
    VllmFlag{"pooler-config", "", "JSON", kOnly, "null", "modules.json of the model decides"},
    VllmFlag{
        "override-pooler-config", "", "JSON", kOnly, "null", "modules.json of the model decides"},
    VllmFlag{
        "weight-transfer-config", "", "JSON", kOnly, "null", "weights stay as they were loaded"},
    // Observability
    VllmFlag{"show-hidden-metrics-for-version",
             "",
             "VERSION",
             kNoEffect,
             "",
             "metrics always have their former names, too"},
    VllmFlag{"collect-detailed-traces",
             "",
             "NAMES",
             kNoEffect,
             "",
             "a span has the times of its request; /start_profile records the parts of steps"},
    VllmFlag{"kv-cache-metrics", "", "", kNoEffect, "", "single blocks are not observed"},
    VllmFlag{"kv-cache-metrics-sample", "", "X", kNoEffect, "", "single blocks are not observed"},
    VllmFlag{"enable-layerwise-nvtx-tracing", "", "", kNoEffect, "", "layers have no NVTX ranges"},
    VllmFlag{"enable-mfu-metrics", "", "", kNoEffect, "", "operations are not counted"},
    VllmFlag{"enable-logging-iteration-details",
             "",
             "",
             kNoEffect,
             "",
             "steps are not logged one by one"},
    VllmFlag{
        "aggregate-engine-logging", "", "", kNoEffect, "", "log lines count all engines together"},
    VllmFlag{"custom-histogram-buckets", "", "JSON", kNoEffect, "", "buckets are vLLM's"},
    VllmFlag{"per-request-spec-decode-metrics", "", "KIND", kNoEffect, "", kAnswerForm},
    VllmFlag{"jit-monitor-mode", "", "MODE", kNoEffect, "", kNoLateCompiling},
    VllmFlag{"jit-monitor-verbose", "", "", kNoEffect, "", kNoLateCompiling},
    VllmFlag{"logging-config",
             "",
             "JSON",
             kOnly,
             "null|{}",
             "write --log-level, --log-format or --log-config-file"},
    // Front end
    VllmFlag{"middleware", "", "NAME", kOnly, "", kCompiled},
    VllmFlag{
        "disable-frontend-multiprocessing", "", "", kNoEffect, "", "one process does all the work"},
    VllmFlag{"enable-reasoning", "", "", kNoEffect, "", "--reasoning-parser alone turns it on"},
    VllmFlag{"tool-parser-plugin", "", "FILE", kOnly, "", kNoCode},
    VllmFlag{"tool-server", "", "ADDRESS", kOnly, "", "the client runs the tools"},
    VllmFlag{
        "disable-log-requests", "", "", kNoEffect, "", "requests are only logged when asked for"},
    VllmFlag{"enable-log-deltas", "", "", kNoEffect, "", "an answer is logged once, when it ends"},
    VllmFlag{"log-error-stack", "", "", kNoEffect, "", kCompiled},
    VllmFlag{"disable-fastapi-docs", "", "", kNoEffect, "", kCompiled},
    VllmFlag{"enable-offline-docs", "", "", kNoEffect, "", kCompiled},
    VllmFlag{"enable-per-request-metrics", "", "", kNoEffect, "", kAnswerForm},
    VllmFlag{"enable-server-load-tracking", "", "", kNoEffect, "", "the load is always known"},
    VllmFlag{
        "enable-tokenizer-info-endpoint", "", "", kNoEffect, "", "the server decides its routes"},
    VllmFlag{"h11-max-incomplete-event-size",
             "",
             "N",
             kNoEffect,
             "",
             "headers have a limit of their own"},
    VllmFlag{"h11-max-header-count", "", "N", kNoEffect, "", "headers have a limit of their own"},
    VllmFlag{"tokens-only", "", "", kOnly, "false", "answers are text"},
    VllmFlag{"grpc", "", "", kOnly, "false", "the API is HTTP"},
    VllmFlag{"grpc-port", "", "N", kOnly, "", "the API is HTTP"},
    VllmFlag{"enable-scale-out", "", "", kOnly, "false", "the API is OpenAI's"},
    VllmFlag{"tool-strict-level",
             "",
             "LEVEL",
             kOnly,
             "auto",
             "the tool choice and `strict` of requests decide"},
    VllmFlag{"cohere-is-reasoning-model", "", "", kNoEffect, "", kNoCohere},
    VllmFlag{"cohere-format", "", "NAME", kNoEffect, "", kNoCohere},
    VllmFlag{"anthropic-disabled-thinking-effort",
             "",
             "LEVEL",
             kOnly,
             "auto",
             "the chat template decides"},
    VllmFlag{"fingerprint-mode", "", "MODE", kOnly, "none", "answers have no fingerprint"},
    VllmFlag{"fingerprint-value", "", "TEXT", kOnly, "", "answers have no fingerprint"},
};

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

bool says_what_is_done(const VllmFlag& flag, std::string_view value) {
  if (flag.support == VllmFlagSupport::no_effect) return true;
  for (std::string_view rest = flag.equal; !rest.empty();) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    if (equals_ignoring_case(rest.substr(0, bar), value)) return true;
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  return false;
}

void use(const VllmFlag& flag, std::string_view value, std::string_view path = {}) {
  const std::string text = flag.value_name.empty()
                               ? fmt::format("--{}{}", value == "true" ? "" : "no-", flag.name)
                               : fmt::format("--{}{} {}", flag.name, path, value);
  if (!says_what_is_done(flag, value)) {
    const std::string_view first = flag.equal.substr(0, flag.equal.find('|'));
    throw InvalidArgument(fmt::format(
        "{} is not supported: {}{}",
        text,
        flag.why,
        first.empty() || flag.value_name.empty() ? "" : fmt::format("; only {} is", first)));
  }
  print_log(LogLevel::warning, "{} has no effect here: {}\n", text, flag.why);
}

/// Flags with objects also have the form --flag.member value.
std::function<void(std::string_view, std::string_view)> dotted_use(const VllmFlag& flag) {
  if (flag.value_name != "JSON") return {};
  return [&flag](std::string_view path, std::string_view value) {
    use(flag, value, fmt::format(".{}", path));
  };
}

std::string describe(const VllmFlag& flag) {
  if (flag.support == VllmFlagSupport::no_effect) return fmt::format("No effect: {}.", flag.why);
  if (flag.equal.empty()) return fmt::format("Refused: {}.", flag.why);
  return fmt::format("Only {}: {}.", flag.equal.substr(0, flag.equal.find('|')), flag.why);
}

}  // namespace

std::span<const VllmFlag> vllm_flags() { return kFlags; }

void add_vllm_flags(OptionTable& table) {
  for (const VllmFlag& flag : kFlags) {
    if (table.find(flag.name) != nullptr) continue;
    table.add({.name = std::string(flag.name),
               .short_name = std::string(flag.short_name),
               .group = kVllmFlagsGroup,
               .value_name = std::string(flag.value_name),
               .help = describe(flag),
               .apply = [&flag](std::string_view value) { use(flag, value); },
               .apply_dotted = dotted_use(flag),
               .example = std::string(flag.equal.substr(0, flag.equal.find('|'))),
               .takes_several = flag.value_name == "NAMES" || flag.value_name == "NUMBERS"});
  }
}

}  // namespace reprise::cli
