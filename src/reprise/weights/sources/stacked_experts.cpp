#include "reprise/weights/sources/stacked_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/config/decoder_tensors.h"

namespace reprise::weights {
namespace {

using Parts = std::map<std::string, StackedExperts::Part, std::less<>>;

// The modules whose rows are consecutive in the matrix of an expert.
struct StackedModule {
  std::string_view stored;  // after the prefix of the layer
  std::vector<std::string_view> modules;
  int64_t rows;  // of each module
  int64_t columns;
};

void add_parts(const WeightSource& source,
               const ModelConfig& config,
               int64_t layer,
               const StackedModule& stacked,
               Parts& parts) {
  const DecoderTensors names = decoder_tensors(config);
  const std::string stored = names.in_layer(layer, stacked.stored);
  const TensorSpec* found = source.find(stored);
  if (found == nullptr) return;
  const int64_t num_experts = config.moe->num_experts;
  std::vector<int64_t> shape = {
      num_experts, static_cast<int64_t>(stacked.modules.size()) * stacked.rows, stacked.columns};
  if (names.has_transposed_experts) std::swap(shape[1], shape[2]);
  if (found->shape != shape) {
    throw FileError(
        "E_SHAPE",
        source.description(),
        stored,
        fmt::format(
            "has shape {}, config.json asks for {}", shape_text(found->shape), shape_text(shape)));
  }
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    int64_t first_row = 0;
    for (const std::string_view module : stacked.modules) {
      parts.emplace(names.in_expert(layer, expert, module) + ".weight",
                    StackedExperts::Part{.stored_name = stored,
                                         .expert = expert,
                                         .first_row = first_row,
                                         .is_transposed = names.has_transposed_experts,
                                         .spec = {found->dtype, {stacked.rows, stacked.columns}}});
      first_row += stacked.rows;
    }
  }
}

/// Copies rows of a part from an expert's matrix [columns, stored_width], which has one row of the
/// part in each column.
void copy_transposed(const StackedExperts::Part& part,
                     std::span<const std::byte> expert,
                     int64_t stored_width,
                     size_t element_bytes,
                     std::span<std::byte> dst) {
  const int64_t rows = part.spec.shape[0];
  const int64_t columns = part.spec.shape[1];
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const auto from = static_cast<size_t>(column * stored_width + part.first_row + row);
      const auto to = static_cast<size_t>(row * columns + column);
      std::memcpy(
          dst.data() + to * element_bytes, expert.data() + from * element_bytes, element_bytes);
    }
  }
}

}  // namespace

StackedExperts::StackedExperts(std::unique_ptr<WeightSource> source, Parts parts)
    : WrappedWeights(std::move(source)), parts_(std::move(parts)) {}

const TensorSpec* StackedExperts::find(std::string_view name) const {
  const auto found = parts_.find(name);
  return found == parts_.end() ? source().find(name) : &found->second.spec;
}

std::vector<std::string_view> StackedExperts::names() const {
  std::set<std::string_view> stacked;
  for (const auto& [name, part] : parts_) stacked.insert(part.stored_name);
  std::vector<std::string_view> names;
  for (const std::string_view name : source().names()) {
    if (!stacked.contains(name)) names.push_back(name);
  }
  for (const auto& [name, part] : parts_) names.push_back(name);
  std::ranges::sort(names);
  return names;
}

void StackedExperts::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) return source().read(name, dtype, dst);
  const Part& part = found->second;
  const std::vector<int64_t>& stored = source().find(part.stored_name)->shape;
  const bool reads_expert = source().reads_rows(part.stored_name);
  const auto row_bytes = static_cast<size_t>(stored[2]) * dtype_bytes(dtype);
  const auto expert_bytes = static_cast<size_t>(stored[1]) * row_bytes;
  std::vector<std::byte> bytes(reads_expert ? expert_bytes
                                            : static_cast<size_t>(stored[0]) * expert_bytes);
  size_t begin = part.is_transposed ? 0 : static_cast<size_t>(part.first_row) * row_bytes;
  if (reads_expert) {
    source().read_rows(part.stored_name, {.first = part.expert, .count = 1}, dtype, bytes);
  } else {
    source().read(part.stored_name, dtype, bytes);
    begin += static_cast<size_t>(part.expert) * expert_bytes;
  }
  if (part.is_transposed) {
    copy_transposed(part, std::span(bytes).subspan(begin), stored[2], dtype_bytes(dtype), dst);
  } else {
    std::memcpy(dst.data(), bytes.data() + begin, dst.size());
  }
}

std::optional<PanelFormat> StackedExperts::panel_format(std::string_view name) const {
  return parts_.contains(name) ? std::nullopt : source().panel_format(name);
}

bool StackedExperts::reads_rows(std::string_view name) const {
  return !parts_.contains(name) && source().reads_rows(name);
}

uint64_t StackedExperts::stored_bytes(std::string_view name) const {
  const auto found = parts_.find(name);
  if (found == parts_.end()) return source().stored_bytes(name);
  const std::vector<int64_t>& shape = found->second.spec.shape;
  return static_cast<uint64_t>(shape[0]) * static_cast<uint64_t>(shape[1]) *
         dtype_bytes(found->second.spec.dtype);
}

std::unique_ptr<WeightSource> with_single_experts(std::unique_ptr<WeightSource> source,
                                                  const ModelConfig& config) {
  if (!config.moe || config.moe->is_stacked) return source;
  const DecoderTensors names = decoder_tensors(config);
  const int64_t size = config.moe->intermediate_size;
  const int64_t latent_size = config.moe->latent_size;
  const int64_t hidden = latent_size > 0 ? latent_size : config.hidden_size;
  const auto first = [&](std::string_view stored, std::vector<std::string_view> modules) {
    return StackedModule{
        .stored = stored, .modules = std::move(modules), .rows = size, .columns = hidden};
  };
  std::vector<StackedModule> all = {{.stored = names.stacked_down,
                                     .modules = {names.expert_down},
                                     .rows = hidden,
                                     .columns = size}};
  if (!names.stacked_gate.empty()) {
    all.push_back(first(names.stacked_gate, {names.expert_gate}));
    all.push_back(first(names.stacked_up, {names.expert_up}));
  } else if (config.moe->is_gated) {
    all.push_back(first(names.stacked_gate_up, {names.expert_gate, names.expert_up}));
  } else {
    all.push_back(first(names.stacked_gate_up, {names.expert_up}));
  }
  Parts parts;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    if (!config.is_moe_layer(layer)) continue;
    for (const StackedModule& stacked : all) {
      add_parts(*source, config, layer, stacked, parts);
    }
  }
  if (parts.empty()) return source;
  return std::make_unique<StackedExperts>(std::move(source), std::move(parts));
}

}  // namespace reprise::weights
