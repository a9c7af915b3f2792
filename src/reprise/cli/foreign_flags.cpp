#include "reprise/cli/foreign_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reprise/cli/option_table.h"

namespace reprise::cli {
namespace {

constexpr std::array kForeignFlags = {
    // llama.cpp's server
    ForeignFlag{"-m", "model", "name the folder or GGUF file without a flag, or write --model"},
    ForeignFlag{"-c", "max-model-len", ""},
    ForeignFlag{"--ctx-size", "max-model-len", ""},
    ForeignFlag{"-ngl", "device", "the whole model is on one device; write --device"},
    ForeignFlag{"--gpu-layers", "device", "the whole model is on one device; write --device"},
    ForeignFlag{"--n-gpu-layers", "device", "the whole model is on one device; write --device"},
    ForeignFlag{"-t", "num-threads", ""},
    ForeignFlag{"--threads", "num-threads", ""},
    ForeignFlag{"-np", "max-num-seqs", ""},
    ForeignFlag{"--parallel", "max-num-seqs", ""},
    ForeignFlag{"-b", "max-num-batched-tokens", ""},
    ForeignFlag{"--batch-size", "max-num-batched-tokens", ""},
    ForeignFlag{"-ub", "max-num-batched-tokens", ""},
    ForeignFlag{"--ubatch-size", "max-num-batched-tokens", ""},
    ForeignFlag{"-n", "max-tokens", ""},
    ForeignFlag{"--predict", "max-tokens", ""},
    ForeignFlag{"--n-predict", "max-tokens", ""},
    ForeignFlag{"--temp", "temperature", ""},
    ForeignFlag{"--repeat-penalty", "repetition-penalty", ""},
    ForeignFlag{"-a", "served-model-name", ""},
    ForeignFlag{"--alias", "served-model-name", ""},
    ForeignFlag{"-ctk", "kv-cache-dtype", ""},
    ForeignFlag{"--cache-type-k", "kv-cache-dtype", ""},
    ForeignFlag{"-ctv", "kv-cache-dtype", ""},
    ForeignFlag{"--cache-type-v", "kv-cache-dtype", ""},
    ForeignFlag{"-md", "speculative-config", ""},
    ForeignFlag{"--model-draft", "speculative-config", ""},
    ForeignFlag{"--lora", "lora-modules", "write --enable-lora --lora-modules"},
    ForeignFlag{"--embedding", "runner", "write --runner pooling"},
    ForeignFlag{"--embeddings", "runner", "write --runner pooling"},
    ForeignFlag{"--reranking", "runner", "write --runner pooling"},
    ForeignFlag{"--chat-template-file", "chat-template", ""},
    ForeignFlag{"--chat-template-kwargs", "default-chat-template-kwargs", ""},
    ForeignFlag{"--reasoning-format", "reasoning-parser", ""},
    ForeignFlag{"--api-prefix", "root-path", ""},
    ForeignFlag{"--ssl-key-file", "ssl-keyfile", ""},
    ForeignFlag{"--ssl-cert-file", "ssl-certfile", ""},
    ForeignFlag{"-fa", "", "leave it out: attention never stores its scores"},
    ForeignFlag{"--flash-attn", "", "leave it out: attention never stores its scores"},
    ForeignFlag{"--jinja", "", "leave it out: chat templates are always Jinja"},
    ForeignFlag{"--mlock", "", "leave it out"},
    ForeignFlag{"--no-mmap", "", "leave it out"},
    ForeignFlag{"-hf", "", "run `reprise pull ORG/NAME:Q4_K_M`, then give that name as the model"},
    ForeignFlag{
        "--hf-repo", "", "run `reprise pull ORG/NAME:Q4_K_M`, then give that name as the model"},
    // SGLang's server
    ForeignFlag{"--model-path", "model", ""},
    ForeignFlag{"--tp", "tensor-parallel-size", "write -tp"},
    ForeignFlag{"--tp-size", "tensor-parallel-size", "write -tp"},
    ForeignFlag{"--dp", "data-parallel-size", "write -dp"},
    ForeignFlag{"--dp-size", "data-parallel-size", "write -dp"},
    ForeignFlag{"--pp-size", "pipeline-parallel-size", "write -pp"},
    ForeignFlag{"--context-length", "max-model-len", ""},
    ForeignFlag{"--mem-fraction-static", "gpu-memory-utilization", ""},
    ForeignFlag{"--max-running-requests", "max-num-seqs", ""},
    ForeignFlag{"--chunked-prefill-size", "max-num-batched-tokens", ""},
    ForeignFlag{"--disable-cuda-graph", "enforce-eager", ""},
    ForeignFlag{
        "--disable-radix-cache", "enable-prefix-caching", "write --no-enable-prefix-caching"},
};

}  // namespace

std::span<const ForeignFlag> foreign_flags() { return kForeignFlags; }

std::string hint_for_foreign_flag(std::string_view flag, const OptionTable& table) {
  const auto found = std::ranges::find(kForeignFlags, flag, &ForeignFlag::flag);
  if (found == kForeignFlags.end()) return {};
  if (!found->option.empty() && table.find(found->option) == nullptr) return {};
  if (!found->advice.empty()) return fmt::format("; {}", found->advice);
  return fmt::format("; write --{}", found->option);
}

}  // namespace reprise::cli
