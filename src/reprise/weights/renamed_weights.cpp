#include "reprise/weights/renamed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/decoder_tensors.h"
#include "reprise/weights/scaled_channels.h"
#include "reprise/weights/text_part.h"

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

namespace {

bool is_of_several_parts(const WeightSource& source) {
  return std::ranges::any_of(source.names(),
                             [](std::string_view name) { return name_in_text_part(name) != name; });
}

// Checkpoints of a class without the part that all its names begin with.
bool lacks_first_part(const WeightSource& source, const std::string& embedding, size_t dot) {
  return !source.has(embedding) && source.has(embedding.substr(dot + 1));
}

}  // namespace

std::unique_ptr<WeightSource> with_class_names(std::unique_ptr<WeightSource> source,
                                               const ModelConfig& config) {
  const DecoderTensors names = decoder_tensors(config);
  const std::string embedding = std::string(names.embedding) + ".weight";
  const size_t dot = embedding.find('.');
  const std::string first_part = embedding.substr(0, dot + 1);
  const bool lacks_first = lacks_first_part(*source, embedding, dot);
  if (!lacks_first && !is_of_several_parts(*source)) {
    return with_scaled_channels(std::move(source), config);
  }
  std::map<std::string, std::string, std::less<>> stored_names;
  for (const std::string_view stored : source->names()) {
    std::string name = name_in_text_part(stored);
    if (name.empty()) continue;
    const bool is_head = name.starts_with(fmt::format("{}.", names.lm_head)) ||
                         name.starts_with(fmt::format("{}.", names.classifier));
    if (lacks_first && !is_head) name.insert(0, first_part);
    stored_names.emplace(std::move(name), stored);
  }
  return with_scaled_channels(
      std::make_unique<RenamedWeights>(std::move(source), std::move(stored_names)), config);
}

}  // namespace reprise::weights
