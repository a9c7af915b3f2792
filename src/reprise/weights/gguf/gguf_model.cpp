#include "reprise/weights/gguf/gguf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/config/config_overrides.h"
#include "reprise/weights/gguf/architecture_keys.h"
#include "reprise/weights/gguf/dequantize.h"
#include "reprise/weights/gguf/gguf_config.h"
#include "reprise/weights/gguf/gguf_tokenizer.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

// Each takes one descriptor; this is the usual soft limit of a process.
constexpr int64_t kMaxParts = 1024;

/// The ending that llama-gguf-split writes for part `part`, counted from 0.
std::string part_ending(int64_t part, int64_t num_parts) {
  return fmt::format("-{:05}-of-{:05}.gguf", part + 1, num_parts);
}

}  // namespace

bool is_gguf_path(const std::filesystem::path& path) { return path.extension() == ".gguf"; }

std::shared_ptr<const GgufModel> GgufModel::open(const std::filesystem::path& path) {
  std::shared_ptr<GgufModel> model(new GgufModel);
  model->files_.push_back(std::make_unique<const GgufFile>(InputFile::open(path)));
  model->add_parts(path);
  return model;
}

void GgufModel::add_parts(const std::filesystem::path& path) {
  const int64_t num_parts = metadata().integer("split.count", 0, kMaxParts).value_or(1);
  if (num_parts <= 1) return;
  const std::string name = path.filename().string();
  const std::string ending = part_ending(0, num_parts);
  if (metadata().required_integer("split.no", 0, num_parts - 1) != 0 || !name.ends_with(ending)) {
    throw FileError(
        "E_SPLIT",
        this->path(),
        "split.no",
        fmt::format(
            "is one of {} parts; pass the first, whose name ends in {}", num_parts, ending));
  }
  const std::string stem = name.substr(0, name.size() - ending.size());
  size_t num_tensors = files_.front()->tensors().size();
  for (int64_t part = 1; part < num_parts; ++part) {
    files_.push_back(std::make_unique<const GgufFile>(
        InputFile::open(path.parent_path() / (stem + part_ending(part, num_parts)))));
    const GgufFile& file = *files_.back();
    num_tensors += file.tensors().size();
    if (file.metadata().integer("split.no", 0, kMaxParts) != part ||
        file.metadata().integer("split.count", 0, kMaxParts) != num_parts) {
      throw FileError("E_SPLIT",
                      file.path(),
                      "split.no",
                      fmt::format("is not part {} of {}, which its name says", part, num_parts));
    }
  }
  const auto expected = metadata().integer("split.tensors.count", 0, int64_t{1} << 32);
  if (expected && std::cmp_not_equal(*expected, num_tensors)) {
    throw FileError("E_SPLIT",
                    this->path(),
                    "split.tensors.count",
                    fmt::format("is {}, the {} parts have {} tensors; do they belong together?",
                                *expected,
                                num_parts,
                                num_tensors));
  }
}

GgufModel::FoundTensor GgufModel::find(std::string_view name) const {
  for (const std::unique_ptr<const GgufFile>& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      if (tensor.name == name) return {.file = file.get(), .tensor = &tensor};
    }
  }
  return {};
}

int64_t GgufModel::rows_of(std::string_view name) const {
  const TensorInfo* tensor = find(name).tensor;
  if (tensor == nullptr || tensor->shape.empty()) return 0;
  return tensor->shape.size() == 1 ? 1 : tensor->shape.front();  // files leave out an extent of 1
}

int64_t GgufModel::end_of_layers() const {
  const ArchitectureKeys keys(metadata());
  const int64_t end = keys.num_layers();
  return end == keys.required("block_count") ? std::numeric_limits<int64_t>::max() : end;
}

std::optional<PoolingConfig> GgufModel::pooling_config() const {
  constexpr std::string_view kKey = "pooling_type";
  const ArchitectureKeys keys(metadata());
  // The numbers of llama.cpp. It gives vectors the length 1 unless a request asks for another.
  switch (keys.integer(kKey).value_or(0)) {
    case 0:
      return std::nullopt;
    case 1:
      return PoolingConfig{.type = PoolingType::mean};
    case 2:
      return PoolingConfig{.type = PoolingType::cls};
    case 3:
      return PoolingConfig{.type = PoolingType::last};
    default:
      keys.fail(kKey,
                "is not supported; supported: 1 (mean), 2 (the first token), 3 (the last token)");
  }
}

std::vector<double> GgufModel::rope_factors(std::string_view name,
                                            std::optional<int64_t> expected) const {
  const auto [file, tensor] = find(name);
  if (tensor == nullptr) return {};
  const int64_t count = expected.value_or(tensor->shape.empty() ? 0 : tensor->shape.front());
  // Half the size of the largest head that a configuration may have.
  constexpr int64_t kMostFactors = 1 << 15;
  if (tensor->format != BlockFormat::f32 || tensor->shape != std::vector<int64_t>{count} ||
      count > kMostFactors) {
    throw FileError("E_SHAPE",
                    file->path(),
                    tensor->name,
                    fmt::format("must be F32 [{}], is {} {}",
                                expected ? std::to_string(count) : "N",
                                block_format_name(tensor->format),
                                shape_text(tensor->shape)));
  }
  std::vector<float> factors(static_cast<size_t>(count));
  file->read(*tensor, 0, std::as_writable_bytes(std::span(factors)));
  for (const float factor : factors) {
    if (!(factor >= 1e-6F && factor <= 1e6F)) {
      throw FileError("E_VALUE",
                      file->path(),
                      tensor->name,
                      fmt::format("has a factor of {}, expected 1e-6 to 1e6", factor));
    }
  }
  return {factors.begin(), factors.end()};
}

std::set<std::string, std::less<>> GgufModel::tensor_names() const {
  std::set<std::string, std::less<>> names;
  for (const std::unique_ptr<const GgufFile>& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      names.insert(std::string(name_in_layer(tensor.name)));
    }
  }
  return names;
}

std::set<int64_t> GgufModel::layers_with(std::string_view tensor_name) const {
  std::set<int64_t> layers;
  for (const std::unique_ptr<const GgufFile>& file : files_) {
    for (const TensorInfo& tensor : file->tensors()) {
      const std::optional<int64_t> layer = layer_of(tensor.name);
      if (layer && name_in_layer(tensor.name) == tensor_name) layers.insert(*layer);
    }
  }
  return layers;
}

LoadedModelConfig GgufModel::config(const Json& overrides) const {
  const GgufConfigTraits traits{.vocab_size = rows_of("token_embd.weight"),
                                .num_token_types = rows_of("token_types.weight"),
                                .tensors = tensor_names(),
                                .layers_with_router = layers_with("ffn_gate_inp.weight"),
                                .short_factors = rope_factors("rope_factors_short.weight", {}),
                                .long_factors = rope_factors("rope_factors_long.weight", {})};
  const Json json = gguf::config_json(metadata(), traits);
  LoadedModelConfig loaded = parse_model_config(json.dump(), path(), overrides);
  for (std::vector<std::string>& warnings :
       std::array{config_warnings(metadata(), overrides), tokenizer_warnings(metadata())}) {
    std::ranges::move(warnings, std::back_inserter(loaded.warnings));
  }
  use_order_of_files(loaded.config);
  std::vector<double> factors = rope_factors(kRopeFactorsTensor, loaded.config.head_dim / 2);
  // If the user gives a rotation, it replaces the whole rotation of the file.
  const bool is_overridden =
      overrides.contains("rope_parameters") || overrides.contains("rope_scaling");
  if (!factors.empty() && !is_overridden) {
    RopeParameters& rope = loaded.config.rope;
    rope.type = RopeType::factors;
    // A head of which only a part is rotated needs fewer factors: the first ones, as in llama.cpp.
    const auto num_pairs = static_cast<size_t>(std::max<int64_t>(rope.rotary_dim, 0) / 2);
    if (num_pairs > 0 && num_pairs < factors.size()) factors.resize(num_pairs);
    rope.frequency_factors = std::move(factors);
  }
  return loaded;
}

GenerationConfig GgufModel::generation_config(const Json& overrides) const {
  const Json json = gguf::generation_config_json(metadata());
  return parse_generation_config(override_config(json.dump(), path(), overrides), path());
}

std::string GgufModel::tokenizer_json() const { return gguf::tokenizer_json(metadata()); }

std::string GgufModel::tokenizer_config_json() const {
  return gguf::tokenizer_config_json(metadata());
}

}  // namespace reprise::weights::gguf
