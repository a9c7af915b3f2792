#include "reprise/weights/sources/renamed_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/codecs/scaled_channels.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/text_part.h"

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

// The first part of the names in a checkpoint, where it differs from that of the class.
struct FirstPart {
  std::string added;    // to the stored names: they lack "transformer."
  std::string removed;  // from them: the class has no "roberta."
};

// Finds out whether the checkpoint's names lack the first part of the class's names, or have one
// that the class's names lack: it was then saved from a class without, or with, a head.
FirstPart find_first_part(const WeightSource& source, const std::string& embedding) {
  if (source.has(embedding)) return {};
  const size_t dot = embedding.find('.');
  if (source.has(embedding.substr(dot + 1))) return {.added = embedding.substr(0, dot + 1)};
  for (const std::string_view stored : source.names()) {
    const size_t end = stored.find('.') + 1;  // 0: no dot
    if (end != 0 && stored.substr(end) == embedding) {
      return {.removed = std::string(stored.substr(0, end))};
    }
  }
  return {};
}

// The first conversions of BERT kept TensorFlow's names for the tensors of a norm.
std::string with_names_of_torch(std::string name) {
  for (const auto& [old_end, end] :
       {std::pair<std::string_view, std::string_view>{".LayerNorm.gamma", ".LayerNorm.weight"},
        {".LayerNorm.beta", ".LayerNorm.bias"}}) {
    if (!name.ends_with(old_end)) continue;
    name.replace(name.size() - old_end.size(), old_end.size(), end);
  }
  return name;
}

}  // namespace

std::unique_ptr<WeightSource> with_class_names(std::unique_ptr<WeightSource> source,
                                               const ModelConfig& config) {
  const DecoderTensors names = decoder_tensors(config);
  const FirstPart first = find_first_part(*source, std::string(names.embedding) + ".weight");
  std::map<std::string, std::string, std::less<>> stored_names;
  bool changes = false;
  for (const std::string_view stored : source->names()) {
    std::string name = with_names_of_torch(name_in_text_part(stored));
    if (!name.empty()) {
      const bool is_head = std::ranges::any_of(
          std::array{names.lm_head, names.classifier, names.pooler, names.pooler_norm},
          [&](std::string_view part) { return name.starts_with(fmt::format("{}.", part)); });
      if (!is_head) name.insert(0, first.added);
      if (!first.removed.empty() && name.starts_with(first.removed)) {
        name.erase(0, first.removed.size());
      }
    }
    changes = changes || name != stored;
    if (!name.empty()) stored_names.emplace(std::move(name), stored);
  }
  if (changes) {
    source = std::make_unique<RenamedWeights>(std::move(source), std::move(stored_names));
  }
  return with_scaled_channels(std::move(source), config);
}

}  // namespace reprise::weights
