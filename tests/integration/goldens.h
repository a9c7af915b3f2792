#pragma once

#include <array>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/files/safetensors.h"
#include "tests/support/source_dir.h"

/// The results of Transformers for one tiny checkpoint; see tests/goldens/README.md.
namespace reprise::testing {

struct GoldenCase {
  std::vector<int32_t> prompt;
  std::vector<int32_t> continuation;  // greedy, f32
  std::vector<float> margins;         // best minus second-best logit at each of them
  std::vector<float> logits_f32;      // [prompt.size(), vocab_size]
  std::vector<float> logits_bf16;     // computed in bf16, widened; empty where nothing needs them

  [[nodiscard]] size_t vocab_size() const { return logits_f32.size() / prompt.size(); }
  [[nodiscard]] std::span<const float> row(const std::vector<float>& logits,
                                           size_t position) const {
    return std::span(logits).subspan(position * vocab_size(), vocab_size());
  }
};

inline constexpr std::array kGoldenModels = {
    "tiny-llama", "tiny-llama-tied", "tiny-llama3", "tiny-mistral", "tiny-qwen2", "tiny-qwen3"};

/// One folder per architecture, with weights in bfloat16, from tools/make_architecture_goldens.py.
inline constexpr std::array kArchitectureGoldens = {"architectures/gemma2",
                                                    "architectures/gemma3",
                                                    "architectures/phi3",
                                                    "architectures/phi3-longrope",
                                                    "architectures/llama-yarn",
                                                    "architectures/llama-linear",
                                                    "architectures/llama-dynamic",
                                                    "architectures/seed-oss",
                                                    "architectures/ernie4_5",
                                                    "architectures/gemma",
                                                    "architectures/glm",
                                                    "architectures/starcoder2",
                                                    "architectures/cohere",
                                                    "architectures/cohere-qk-norm",
                                                    "architectures/olmoe",
                                                    "architectures/olmoe-clip",
                                                    "architectures/olmo3",
                                                    "architectures/cohere2",
                                                    "architectures/falcon-h1",
                                                    "architectures/falcon-h1-norm",
                                                    "architectures/falcon-h1-norm-first",
                                                    "architectures/gpt-bigcode",
                                                    "architectures/gpt-bigcode-multi-head",
                                                    "architectures/smollm3",
                                                    "architectures/granite",
                                                    "architectures/minicpm",
                                                    "architectures/glm4",
                                                    "architectures/olmo2",
                                                    "architectures/ministral3",
                                                    "architectures/gpt2",
                                                    "architectures/gpt2-inverse-layers",
                                                    "architectures/opt",
                                                    "architectures/opt-350m",
                                                    "architectures/gpt-neox",
                                                    "architectures/gpt-neox-sequential",
                                                    "architectures/falcon-7b",
                                                    "architectures/falcon-40b",
                                                    "architectures/falcon-11b",
                                                    "architectures/falcon-rw",
                                                    "architectures/falcon-rw-alibi",
                                                    "architectures/stablelm",
                                                    "architectures/stablelm-parallel",
                                                    "architectures/stablelm-qk-norm",
                                                    "architectures/gpt-oss",
                                                    "architectures/deepseek-v2",
                                                    "architectures/deepseek-v2-lite",
                                                    "architectures/deepseek-v3",
                                                    "architectures/deepseek-v3-scores",
                                                    "architectures/mamba",
                                                    "architectures/mamba2",
                                                    "architectures/bamba",
                                                    "architectures/granite-moe-hybrid",
                                                    "architectures/qwen3-next",
                                                    "architectures/qwen3_5",
                                                    "architectures/qwen3_5-odd-rotation",
                                                    "architectures/lfm2",
                                                    "architectures/qwen3_5-moe",
                                                    "architectures/granite-moe",
                                                    "architectures/granite-moe-hybrid-experts",
                                                    "architectures/qwen2_5-vl",
                                                    "architectures/gemma3-vl",
                                                    "architectures/llama4",
                                                    "architectures/llama4-two-experts",
                                                    "architectures/llama4-vl",
                                                    "architectures/mixtral",
                                                    "architectures/qwen2-moe",
                                                    "architectures/qwen3-moe",
                                                    "architectures/glm4-moe",
                                                    "architectures/mimo-v2",
                                                    "architectures/mimo-v2-odd-rotation",
                                                    "architectures/kimi-linear",
                                                    "architectures/step3p7",
                                                    "architectures/deepseek-v3_2",
                                                    "architectures/glm-moe-dsa",
                                                    "architectures/mistral4",
                                                    "architectures/mistral4-scaled-experts",
                                                    "architectures/glm4-moe-lite",
                                                    "architectures/solar-open",
                                                    "architectures/dots1",
                                                    "architectures/minimax-m2",
                                                    "architectures/ernie4_5-moe",
                                                    "architectures/hunyuan",
                                                    "architectures/hunyuan-moe",
                                                    "architectures/lfm2-moe",
                                                    "architectures/exaone4",
                                                    "architectures/gemma4",
                                                    "architectures/gemma4-experts",
                                                    "architectures/gemma4-unified",
                                                    "architectures/gemma4-vl",
                                                    "architectures/nemotron-h",
                                                    "architectures/nemotron-h-experts",
                                                    "architectures/nemotron-h-latent"};

inline std::filesystem::path golden_folder(const std::string& model) {
  return std::filesystem::path(source_dir()) / "tests" / "goldens" / model;
}

inline std::vector<float> read_floats(const weights::SafetensorsFile& file,
                                      const std::string& name) {
  const weights::TensorEntry* tensor = file.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<std::byte> stored(tensor->size_bytes());
  file.read(*tensor, 0, stored);
  const DType dtype = tensor->spec.dtype;
  std::vector<float> values(stored.size() / dtype_bytes(dtype));
  weights::convert(dtype, stored, DType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

inline std::vector<GoldenCase> load_goldens(const std::string& model) {
  const weights::ModelDirectory folder(golden_folder(model));
  const Json document = parse_json(folder.read_text("golden.json", 1 << 20), "golden.json");
  const weights::SafetensorsFile tensors(folder.open("golden.safetensors"));
  std::vector<GoldenCase> cases;
  for (const Json& entry : document.at("cases")) {
    const std::string name = "prompt_" + std::to_string(cases.size());
    cases.push_back({.prompt = entry.at("prompt").get<std::vector<int32_t>>(),
                     .continuation = entry.at("continuation").get<std::vector<int32_t>>(),
                     .margins = entry.at("margins").get<std::vector<float>>(),
                     .logits_f32 = read_floats(tensors, name + ".logits_f32")});
    if (tensors.find(name + ".logits_bf16") != nullptr) {
      cases.back().logits_bf16 = read_floats(tensors, name + ".logits_bf16");
    }
  }
  return cases;
}

}  // namespace reprise::testing
