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
constexpr std::string_view kNoHub = "models are folders on this machine; nothing is downloaded";
constexpr std::string_view kFixedExperts =
    "each rank keeps the experts that it loaded, which are neighbours";
constexpr std::string_view kNoTorch = "there is no PyTorch, and no Python worker";
constexpr std::string_view kCompiled = "the server is compiled; it has no Python web framework";
constexpr std::string_view kNoTransfer = "keys and values stay in this process";
constexpr std::string_view kNoOffload = "weights stay in memory";
constexpr std::string_view kAutoOnly = "the engine chooses the value";

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
    // Cache
    VllmFlag{"swap-space", "", "GIB", kNoEffect, "", "preempted requests are computed again"},
    VllmFlag{"cpu-offload-gb", "", "GIB", kOnly, "0", kNoOffload},
    VllmFlag{"kv-cache-dtype-skip-layers", "", "NAMES", kOnly, "", "all layers have one type"},
    VllmFlag{
        "calculate-kv-scales", "", "", kOnly, "false", "scales are 1 or those of the checkpoint"},
    VllmFlag{
        "kv-sharing-fast-prefill", "", "", kOnly, "false", "no model here shares keys and values"},
    VllmFlag{"prefix-caching-hash-algo", "", "NAME", kNoEffect, "", "answers do not depend on it"},
    VllmFlag{"mamba-cache-dtype", "", "TYPE", kNoEffect, "", "states are float32"},
    VllmFlag{"mamba-ssm-cache-dtype", "", "TYPE", kNoEffect, "", "states are float32"},
    VllmFlag{"mamba-block-size", "", "N", kNoEffect, "", "states are in slots, not in blocks"},
    VllmFlag{"kv-offloading-size", "", "GIB", kOnly, "0", kNoTransfer},
    VllmFlag{"kv-offloading-backend", "", "NAME", kNoEffect, "", kNoTransfer},
    VllmFlag{"ec-transfer-config", "", "JSON", kOnly, "null", kNoTransfer},
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
    // Speculation, structure, attention
    VllmFlag{"guided-decoding-disable-fallback", "", "", kNoEffect, "", "there is one backend"},
    VllmFlag{"guided-decoding-disable-additional-properties",
             "",
             "",
             kOnly,
             "false",
             "the schema decides"},
    VllmFlag{"additional-config", "", "JSON", kOnly, "{}", "there are no platform plug-ins"},
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
    VllmFlag{"enable-per-request-metrics", "", "", kNoEffect, "", "answers have OpenAI's form"},
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
               .example = std::string(flag.equal.substr(0, flag.equal.find('|')))});
  }
}

}  // namespace reprise::cli
