#include "reprise/weights/sources/draft_head_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/sources/renamed_weights.h"

namespace reprise::weights {
namespace {

// The name under which the head's tensor is loaded; empty: the tensor is not part of the head.
std::string name_in_eagle_head(std::string_view stored) {
  if (stored.starts_with("model.")) stored.remove_prefix(6);
  if (stored == head_tensors::kLmHead || stored == head_tensors::kDraftToTarget) {
    return std::string(stored);
  }
  if (stored == "t2d") return {};  // the same mapping as d2t, as a mask over the target's tokens
  constexpr std::string_view kMidlayer = "midlayer.";
  if (stored.starts_with(kMidlayer)) {
    return fmt::format("model.layers.0.{}", stored.substr(kMidlayer.size()));
  }
  return fmt::format("model.{}", stored);
}

std::string name_in_mtp_head(std::string_view stored, int64_t layer) {
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  if (!stored.starts_with(prefix)) return {};
  const std::string_view name = stored.substr(prefix.size());
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kNames = {{
      {"eh_proj.weight", head_tensors::kFc},
      {"enorm.weight", "model.enorm.weight"},
      {"hnorm.weight", "model.hnorm.weight"},
      {"shared_head.norm.weight", "model.norm.weight"},
      {"shared_head.head.weight", head_tensors::kLmHead},
  }};
  for (const auto& [in_checkpoint, loaded] : kNames) {
    if (name == in_checkpoint) return std::string(loaded);
  }
  if (name == "embed_tokens.weight") return {};  // a copy of the target's
  return fmt::format("model.layers.0.{}", name);
}

std::string name_in_qwen_mtp_head(std::string_view stored) {
  constexpr std::string_view kPrefix = "mtp.";
  if (!stored.starts_with(kPrefix)) return {};
  stored.remove_prefix(kPrefix.size());
  if (stored == "pre_fc_norm_embedding.weight") return "model.enorm.weight";
  if (stored == "pre_fc_norm_hidden.weight") return "model.hnorm.weight";
  return fmt::format("model.{}", stored);
}

// The name under which a tensor of the checkpoint is loaded; empty: the tensor is not part of the
// head.
std::string name_in_head(std::string_view stored, const DraftHeadConfig& head) {
  switch (head.kind) {
    case DraftHeadKind::mtp:
      return name_in_mtp_head(stored, head.target_num_layers);
    case DraftHeadKind::qwen_mtp:
      return name_in_qwen_mtp_head(stored);
    case DraftHeadKind::eagle:
    case DraftHeadKind::eagle3:
      break;
  }
  return name_in_eagle_head(stored);
}

bool is_of(const ExpectedTensor& tensor, std::string_view module) {
  return tensor.name.starts_with(module) && tensor.name.substr(module.size()).starts_with('.');
}

}  // namespace

std::unique_ptr<WeightSource> with_head_names(std::unique_ptr<WeightSource> source,
                                              const DraftHeadConfig& head) {
  std::map<std::string, std::string, std::less<>> stored_names;
  for (const std::string_view stored : source->names()) {
    std::string name = name_in_head(stored, head);
    if (!name.empty()) stored_names.emplace(std::move(name), stored);
  }
  return std::make_unique<RenamedWeights>(std::move(source), std::move(stored_names));
}

std::vector<ExpectedTensor> expected_tensors(const DraftHeadConfig& head) {
  const int64_t hidden = head.model.hidden_size;
  std::vector<ExpectedTensor> tensors = expected_tensors(head.model);
  std::erase_if(tensors, [&](const ExpectedTensor& tensor) {
    return head.kind == DraftHeadKind::eagle && (is_of(tensor, "model.layers.0.input_layernorm") ||
                                                 is_of(tensor, head_tensors::kFinalNorm));
  });
  for (ExpectedTensor& tensor : tensors) {
    if (tensor.name == head_tensors::kEmbedding) tensor.presence = Presence::optional;
    if (tensor.name == head_tensors::kLmHead) {
      tensor.presence =
          head.draft_vocab_size == head.model.vocab_size ? Presence::optional : Presence::required;
      tensor.shape = {head.draft_vocab_size, hidden};
    }
    // The layer of eagle3 reads the embedding and the hidden state side by side, so its inputs are
    // twice as wide.
    const bool reads_both = is_of(tensor, "model.layers.0.self_attn.q_proj") ||
                            is_of(tensor, "model.layers.0.self_attn.k_proj") ||
                            is_of(tensor, "model.layers.0.self_attn.v_proj");
    if (head.kind == DraftHeadKind::eagle3 && reads_both && tensor.shape.size() == 2) {
      tensor.shape[1] = 2 * hidden;
    }
  }
  const auto add_norm = [&](std::string_view module) {
    tensors.push_back(
        {.name = fmt::format("{}.weight", module), .shape = {hidden}, .role = WeightRole::norm});
  };
  const int64_t fc_inputs = head.kind == DraftHeadKind::eagle3 ? head.feature_size() : 2 * hidden;
  tensors.push_back({.name = std::string(head_tensors::kFc), .shape = {hidden, fc_inputs}});
  if (head.kind == DraftHeadKind::eagle3) add_norm(head_tensors::kHiddenNorm);
  if (head.is_mtp()) {
    add_norm(head_tensors::kEmbeddingNorm);
    add_norm(head_tensors::kTargetNorm);
  }
  return tensors;
}

std::vector<std::string> verify_weights(const DraftHeadConfig& head, const WeightSource& source) {
  return verify_tensors(
      expected_tensors(head), "the draft head", source, head_tensors::kDraftToTarget);
}

std::vector<int32_t> read_target_ids(const DraftHeadConfig& head, const WeightSource& source) {
  constexpr std::string_view kName = head_tensors::kDraftToTarget;
  const TensorSpec* const spec = source.find(kName);
  if (spec == nullptr) {
    if (head.draft_vocab_size == head.model.vocab_size) return {};
    throw FileError("E_MISSING",
                    source.description(),
                    kName,
                    fmt::format("the head has logits of {} of {} tokens, and this tensor says "
                                "which tokens they are",
                                head.draft_vocab_size,
                                head.model.vocab_size));
  }
  const std::vector<int64_t> shape = {head.draft_vocab_size};
  if (spec->shape != shape) {
    throw FileError("E_SHAPE",
                    source.description(),
                    kName,
                    fmt::format("is {}, expected {}", shape_text(spec->shape), shape_text(shape)));
  }
  if (spec->dtype != DType::i64 && spec->dtype != DType::i32) {
    throw FileError("E_DTYPE",
                    source.description(),
                    kName,
                    fmt::format("is {}, expected int64 or int32", dtype_name(spec->dtype)));
  }
  const auto count = static_cast<size_t>(head.draft_vocab_size);
  const size_t width = dtype_bytes(spec->dtype);
  std::vector<std::byte> bytes(count * width);
  source.read(kName, spec->dtype, bytes);
  std::vector<int32_t> ids(count);
  for (size_t row = 0; row < count; ++row) {
    int64_t offset = 0;
    if (width == sizeof(int64_t)) {
      std::memcpy(&offset, &bytes[row * width], sizeof offset);
    } else {
      int32_t narrow = 0;
      std::memcpy(&narrow, &bytes[row * width], sizeof narrow);
      offset = narrow;
    }
    const auto first = static_cast<int64_t>(row);
    // Both bounds are checked before the addition, so it cannot overflow.
    if (offset < -first || offset >= head.model.vocab_size - first) {
      throw FileError("E_VALUE",
                      source.description(),
                      kName,
                      fmt::format("entry {} is {}, so it names a token outside of the vocabulary "
                                  "of {}",
                                  row,
                                  offset,
                                  head.model.vocab_size));
    }
    ids[row] = static_cast<int32_t>(first + offset);
  }
  return ids;
}

}  // namespace reprise::weights
