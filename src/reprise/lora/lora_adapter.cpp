#include "reprise/lora/lora_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/lora/adapter_config.h"
#include "reprise/weights/config/text_part.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/files/model_directory.h"
#include "reprise/weights/files/safetensors.h"

namespace reprise::lora {
namespace {

constexpr std::string_view kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";  // PEFT's wrapper around the model

// The last part of a module's name, "self_attn.q_proj" of "model.layers.0.self_attn.q_proj", for
// messages.
std::string_view leaf_of(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

// The name of a module's tensor in the language model, without PEFT's prefix. Adapters of models
// that read images too say "model.language_model.layers". Empty: the tensor belongs to another part
// of the model.
std::string name_in_model(std::string_view stored) {
  if (stored.starts_with(kPrefix)) stored.remove_prefix(kPrefix.size());
  return weights::name_in_text_part(stored);
}

// Reads the matrices of one adapter and remembers which tensors of the file were read.
class AdapterReader {
 public:
  AdapterReader(const weights::ModelDirectory& directory, const AdapterConfig& config)
      : file_(directory.open(kWeightsFile)), config_(config) {
    for (const weights::TensorEntry& entry : file_.tensors()) {
      if (const auto name = name_in_model(entry.name); !name.empty()) tensors_[name] = &entry;
    }
  }

  // Writes the adapter of one layer, if it has one.
  LoraAdapter::Image read(const LoraLayer& layer) {
    LoraAdapter::Image image;
    for (size_t module = 0; module < layer.modules.size(); ++module) {
      const std::string& name = layer.modules[module].name;
      const weights::TensorEntry* a = find(name, ".lora_A.weight");
      const weights::TensorEntry* b = find(name, ".lora_B.weight");
      if (a == nullptr && b == nullptr) continue;
      if (a == nullptr || b == nullptr) {
        throw FileError("E_MISSING", file_.path(), name, "the adapter has only one of A and B");
      }
      if (image.a.empty()) {
        image.a.resize(layer.a.type().bytes() / static_cast<size_t>(layer.a.size(0)));
        image.b.resize(layer.b.type().bytes() / static_cast<size_t>(layer.b.size(0)));
      }
      write(layer, module, *a, *b, image);
    }
    return image;
  }

  // Refuses a file with tensors that no layer has asked for.
  void require_all_used(const std::deque<LoraLayer>& layers) const {
    for (const weights::TensorEntry& entry : file_.tensors()) {
      if (used_.contains(entry.name)) continue;
      throw FileError(
          "E_LORA_TARGET", file_.path(), weights::visible(entry.name), why_unused(entry, layers));
    }
    if (used_.empty()) {
      throw FileError("E_LORA_TARGET", file_.path(), "", "the file has no tensors");
    }
  }

 private:
  void write(const LoraLayer& layer,
             size_t module,
             const weights::TensorEntry& a,
             const weights::TensorEntry& b,
             LoraAdapter::Image& image) {
    const int64_t rank = rank_of(a);
    const std::vector<float> values_of_a = read_matrix(a, rank, layer.in_features);
    const std::vector<float> values_of_b = read_matrix(b, layer.modules[module].out_features, rank);
    const double scale = config_.scale_of(module_of(b), rank);
    for (size_t part = 0; part < layer.parts.size(); ++part) {
      if (layer.parts[part].module != module) continue;
      write_a(layer, part, values_of_a, image.a);
      write_b(layer, layer.parts[part], values_of_b, rank, scale, image.b);
    }
  }

  static std::string why_unused(const weights::TensorEntry& entry,
                                const std::deque<LoraLayer>& layers) {
    if (name_in_model(entry.name).empty()) {
      return "it belongs to a part that is not loaded; only the language model is loaded";
    }
    if (entry.name.find(".lora_") == std::string::npos) {
      return "modules that are trained whole (modules_to_save) are not supported; merge the "
             "adapter";
    }
    std::set<std::string_view> offered;
    for (const LoraLayer& layer : layers) {
      for (const LoraModule& module : layer.modules) offered.insert(leaf_of(module.name));
    }
    return fmt::format(
        "this model has no projection of this name; adapters may have A and B of: {}",
        fmt::join(offered, ", "));
  }

  // The module of a matrix, as PEFT names it.
  static std::string_view module_of(const weights::TensorEntry& entry) {
    std::string_view name = entry.name;
    if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
    return name.substr(0, name.rfind(".lora_"));
  }

  [[nodiscard]] const weights::TensorEntry* find(const std::string& module,
                                                 std::string_view matrix) const {
    const auto found = tensors_.find(module + std::string(matrix));
    return found == tensors_.end() ? nullptr : found->second;
  }

  // The rank of the config, or one of the ranks that rank_pattern names.
  [[nodiscard]] int64_t rank_of(const weights::TensorEntry& a) const {
    const std::vector<int64_t>& others = config_.other_ranks;
    const int64_t rows = a.spec.shape.empty() ? 0 : a.spec.shape.front();
    return std::ranges::find(others, rows) == others.end() ? config_.rank : rows;
  }

  // The matrix in float32.
  std::vector<float> read_matrix(const weights::TensorEntry& entry, int64_t rows, int64_t columns) {
    const std::string& name = entry.name;
    const weights::TensorSpec& spec = entry.spec;
    if (spec.shape != std::vector<int64_t>{rows, columns}) {
      throw FileError("E_SHAPE",
                      file_.path(),
                      name,
                      fmt::format("the shape is {}; the model and the rank ask for [{}, {}]",
                                  weights::shape_text(spec.shape),
                                  rows,
                                  columns));
    }
    if (!weights::is_convertible(spec.dtype, DType::f32)) {
      throw FileError("E_DTYPE",
                      file_.path(),
                      name,
                      fmt::format("{} is not supported; store float32, bfloat16 or float16",
                                  dtype_name(spec.dtype)));
    }
    used_.insert(name);
    std::vector<std::byte> stored(weights::size_bytes(spec));
    file_.read(entry, 0, stored);
    std::vector<float> values(static_cast<size_t>(rows * columns));
    weights::convert(spec.dtype, stored, DType::f32, std::as_writable_bytes(std::span(values)));
    return values;
  }

  // Rows [part * max_rank, part * max_rank + rank) of the slot; the other rows stay zero.
  static void write_a(const LoraLayer& layer,
                      size_t part,
                      std::span<const float> values,
                      std::span<std::byte> slot) {
    const DType dtype = layer.a.dtype();
    const auto max_rank = static_cast<size_t>(layer.b.size(1));
    const size_t row_bytes = static_cast<size_t>(layer.in_features) * dtype_bytes(dtype);
    const size_t bytes = values.size() * dtype_bytes(dtype);
    weights::convert(
        DType::f32, std::as_bytes(values), dtype, slot.subspan(part * max_rank * row_bytes, bytes));
  }

  // The columns of the part, transposed: row j of the slot is column j of B.
  static void write_b(const LoraLayer& layer,
                      const LoraPart& part,
                      std::span<const float> values,
                      int64_t rank,
                      double scale,
                      std::span<std::byte> slot) {
    const DType dtype = layer.b.dtype();
    const auto [module, begin, end] = part;
    int64_t first_row = 0;  // first row of the module in the stack
    for (size_t i = 0; i < module; ++i) first_row += layer.modules[i].out_features;
    const auto width = static_cast<size_t>(layer.b.size(2));
    std::vector<float> row(static_cast<size_t>(end - begin));
    for (int64_t j = 0; j < rank; ++j) {
      for (int64_t output = begin; output < end; ++output) {
        const int64_t row_of_b = layer.stacked_row(output) - first_row;
        row[static_cast<size_t>(output - begin)] = static_cast<float>(
            scale * static_cast<double>(values[static_cast<size_t>(row_of_b * rank + j)]));
      }
      const size_t at = (static_cast<size_t>(j) * width + static_cast<size_t>(begin));
      weights::convert(DType::f32,
                       std::as_bytes(std::span(row)),
                       dtype,
                       slot.subspan(at * dtype_bytes(dtype), row.size() * dtype_bytes(dtype)));
    }
  }

  weights::SafetensorsFile file_;
  const AdapterConfig& config_;
  std::map<std::string, const weights::TensorEntry*, std::less<>> tensors_;  // by name in the model
  std::unordered_set<std::string_view> used_;                                // names in file_
};

weights::ModelDirectory open_folder(std::string_view name, const std::filesystem::path& folder) {
  try {
    weights::ModelDirectory directory(folder);
    if (directory.contains(kAdapterConfigFile)) return directory;
  } catch (const FileError& error) {
    throw FileError(error.code(),
                    error.path(),
                    "",
                    fmt::format("the adapter '{}' has no folder here; pass the folder with its {}",
                                weights::visible(name),
                                kAdapterConfigFile));
  }
  throw FileError(
      "E_MISSING",
      folder.string(),
      "",
      fmt::format(
          "has no {}, so it is no adapter ('{}')", kAdapterConfigFile, weights::visible(name)));
}

uint64_t digest_of(std::span<const LoraAdapter::Image> images) {
  uint64_t digest = 0;
  for (const LoraAdapter::Image& image : images) {
    digest = XXH3_64bits_withSeed(image.a.data(), image.a.size(), digest);
    digest = XXH3_64bits_withSeed(image.b.data(), image.b.size(), digest);
  }
  return digest;
}

}  // namespace

std::shared_ptr<const LoraAdapter> LoraAdapter::load(std::string name,
                                                     const std::filesystem::path& folder,
                                                     const std::deque<LoraLayer>& layers,
                                                     uint64_t id) {
  REPRISE_ASSERT(!layers.empty() && id != 0,
                 "the model has no layers for adapters, or the adapter's id is 0");
  const weights::ModelDirectory directory = open_folder(name, folder);
  const AdapterConfig config = read_adapter_config(directory, layers.front().b.size(1));
  AdapterReader reader(directory, config);
  std::vector<Image> images;
  for (const LoraLayer& layer : layers) images.push_back(reader.read(layer));
  reader.require_all_used(layers);
  return std::shared_ptr<const LoraAdapter>(
      new LoraAdapter(std::move(name), folder, id, config.rank, std::move(images)));
}

LoraAdapter::LoraAdapter(std::string name,
                         std::filesystem::path folder,
                         uint64_t id,
                         int64_t rank,
                         std::vector<Image> images)
    : name_(std::move(name)),
      folder_(std::move(folder)),
      id_(id),
      rank_(rank),
      images_(std::move(images)),
      digest_(digest_of(images_)) {}

size_t LoraAdapter::total_bytes() const noexcept {
  size_t bytes = 0;
  for (const Image& image : images_) bytes += image.a.size() + image.b.size();
  return bytes;
}

}  // namespace reprise::lora
