#include "reprise/lora/lora_adapter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/lora/adapter_config.h"
#include "reprise/weights/convert.h"
#include "reprise/weights/model_directory.h"
#include "reprise/weights/safetensors.h"

namespace reprise::lora {
namespace {

constexpr std::string_view kWeightsFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";  // PEFT's wrapper around the model

// "self_attn.q_proj" of "model.layers.0.self_attn.q_proj", for messages.
std::string_view leaf_of(std::string_view module) {
  const size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

// Reads the matrices of one adapter and remembers which tensors of the file were read.
class AdapterReader {
 public:
  AdapterReader(const weights::ModelDirectory& directory, const AdapterConfig& config)
      : file_(directory.open(kWeightsFile)), config_(config) {}

  // Writes the adapter of one layer, if it has one.
  LoraAdapter::Image read(const LoraLayer& layer) {
    LoraAdapter::Image image;
    for (size_t module = 0; module < layer.modules.size(); ++module) {
      const std::string base = fmt::format("{}{}", kPrefix, layer.modules[module].name);
      const weights::TensorEntry* a = file_.find(base + ".lora_A.weight");
      const weights::TensorEntry* b = file_.find(base + ".lora_B.weight");
      if (a == nullptr && b == nullptr) continue;
      if (image.a.empty()) {
        image.a.resize(layer.a.type().bytes() / static_cast<size_t>(layer.a.size(0)));
        image.b.resize(layer.b.type().bytes() / static_cast<size_t>(layer.b.size(0)));
      }
      const int64_t out_features = layer.modules[module].out_features;
      write_a(layer,
              module,
              read_matrix(base + ".lora_A.weight", config_.rank, layer.in_features),
              image.a);
      write_b(
          layer, module, read_matrix(base + ".lora_B.weight", out_features, config_.rank), image.b);
    }
    return image;
  }

  // Refuses a file with tensors that no layer has asked for.
  void require_all_used(const std::deque<LoraLayer>& layers) const {
    for (const weights::TensorEntry& entry : file_.tensors()) {
      if (used_.contains(entry.name)) continue;
      std::set<std::string_view> offered;
      for (const LoraLayer& layer : layers) {
        for (const LoraModule& module : layer.modules) offered.insert(leaf_of(module.name));
      }
      throw FileError(
          "E_LORA_TARGET",
          file_.path(),
          weights::visible(entry.name),
          fmt::format("this model has no such adapter; adapters may change A and B of: {}",
                      fmt::join(offered, ", ")));
    }
    if (used_.empty()) {
      throw FileError("E_LORA_TARGET", file_.path(), "", "the file has no tensors");
    }
  }

 private:
  // The matrix in float32.
  std::vector<float> read_matrix(const std::string& name, int64_t rows, int64_t columns) {
    const weights::TensorEntry* entry = file_.find(name);
    if (entry == nullptr) {
      throw FileError("E_MISSING", file_.path(), name, "the adapter has only the other matrix");
    }
    const weights::TensorSpec& spec = entry->spec;
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
    used_.insert(entry->name);
    std::vector<std::byte> stored(weights::size_bytes(spec));
    file_.read(*entry, 0, stored);
    std::vector<float> values(static_cast<size_t>(rows * columns));
    weights::convert(spec.dtype, stored, DType::f32, std::as_writable_bytes(std::span(values)));
    return values;
  }

  // Rows [module * max_rank, module * max_rank + rank) of the slot; the other rows stay zero.
  static void write_a(const LoraLayer& layer,
                      size_t module,
                      std::span<const float> values,
                      std::span<std::byte> slot) {
    const DType dtype = layer.a.dtype();
    const auto max_rank = static_cast<size_t>(layer.b.size(1));
    const size_t row_bytes = static_cast<size_t>(layer.in_features) * dtype_bytes(dtype);
    const size_t bytes = values.size() * dtype_bytes(dtype);
    weights::convert(DType::f32,
                     std::as_bytes(values),
                     dtype,
                     slot.subspan(module * max_rank * row_bytes, bytes));
  }

  // The columns of the module, transposed: row j of the slot is column j of B.
  void write_b(const LoraLayer& layer,
               size_t module,
               std::span<const float> values,
               std::span<std::byte> slot) const {
    const DType dtype = layer.b.dtype();
    const std::vector<int32_t> ends = ends_of_modules(layer.modules, layer.rows);
    const int64_t begin = module == 0 ? 0 : ends[module - 1];
    const int64_t end = ends[module];
    const auto width = static_cast<size_t>(layer.b.size(2));
    std::vector<float> row(static_cast<size_t>(end - begin));
    for (int64_t j = 0; j < config_.rank; ++j) {
      for (int64_t output = begin; output < end; ++output) {
        const int64_t row_of_b = layer.stacked_row(output) - begin;
        row[static_cast<size_t>(output - begin)] = static_cast<float>(
            config_.scale *
            static_cast<double>(values[static_cast<size_t>(row_of_b * config_.rank + j)]));
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
  std::unordered_set<std::string_view> used_;  // names in file_
};

}  // namespace

std::shared_ptr<const LoraAdapter> LoraAdapter::load(std::string name,
                                                     const std::filesystem::path& folder,
                                                     const std::deque<LoraLayer>& layers,
                                                     uint64_t id) {
  REPRISE_ASSERT(!layers.empty() && id != 0, "a model without layers for adapters, or id 0");
  const weights::ModelDirectory directory(folder);
  const AdapterConfig config = read_adapter_config(directory, layers.front().b.size(1));
  AdapterReader reader(directory, config);
  std::vector<Image> images;
  for (const LoraLayer& layer : layers) images.push_back(reader.read(layer));
  reader.require_all_used(layers);
  return std::shared_ptr<const LoraAdapter>(
      new LoraAdapter(std::move(name), id, config.rank, std::move(images)));
}

size_t LoraAdapter::total_bytes() const noexcept {
  size_t bytes = 0;
  for (const Image& image : images_) bytes += image.a.size() + image.b.size();
  return bytes;
}

}  // namespace reprise::lora
