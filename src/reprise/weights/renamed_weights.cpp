#include "reprise/weights/renamed_weights.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/decoder_tensors.h"

namespace reprise::weights {

RenamedWeights::RenamedWeights(std::unique_ptr<WeightSource> source,
                               std::map<std::string, std::string, std::less<>> stored_names)
    : source_(std::move(source)), stored_names_(std::move(stored_names)) {}

const TensorSpec* RenamedWeights::find(std::string_view name) const {
  const auto found = stored_names_.find(name);
  return found == stored_names_.end() ? nullptr : source_->find(found->second);
}

std::vector<std::string_view> RenamedWeights::names() const {
  std::vector<std::string_view> names;
  for (const auto& [name, stored] : stored_names_) names.push_back(name);
  return names;
}

const std::string& RenamedWeights::stored_name(std::string_view name) const {
  const auto found = stored_names_.find(name);
  if (found == stored_names_.end()) {
    throw FileError("E_MISSING", description(), name, "no such tensor");
  }
  return found->second;
}

void RenamedWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  source_->read(stored_name(name), dtype, dst);
}

std::optional<PanelFormat> RenamedWeights::panel_format(std::string_view name) const {
  const auto found = stored_names_.find(name);
  return found == stored_names_.end() ? std::nullopt : source_->panel_format(found->second);
}

void RenamedWeights::read_panels(std::string_view name, std::span<std::byte> dst) const {
  source_->read_panels(stored_name(name), dst);
}

uint64_t RenamedWeights::stored_bytes(std::string_view name) const {
  return source_->stored_bytes(stored_name(name));
}

std::string RenamedWeights::description() const { return source_->description(); }

std::unique_ptr<WeightSource> with_class_names(std::unique_ptr<WeightSource> source,
                                               const ModelConfig& config) {
  const DecoderTensors names = decoder_tensors(config);
  const std::string embedding = std::string(names.embedding) + ".weight";
  const size_t dot = embedding.find('.');
  const std::string first_part = embedding.substr(0, dot + 1);
  if (source->has(embedding) || !source->has(embedding.substr(dot + 1))) return source;
  std::map<std::string, std::string, std::less<>> stored_names;
  for (const std::string_view name : source->names()) {
    const bool is_head = name.starts_with(fmt::format("{}.", names.lm_head));
    stored_names.emplace(is_head ? std::string(name) : first_part + std::string(name), name);
  }
  return std::make_unique<RenamedWeights>(std::move(source), std::move(stored_names));
}

}  // namespace reprise::weights
