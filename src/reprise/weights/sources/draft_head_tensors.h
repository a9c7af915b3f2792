#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/draft_head_config.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The names of a head's tensors in the code that loads them, whatever names the checkpoint has.
/// Those of the head's layer are a decoder's names for layer 0.
namespace head_tensors {
inline constexpr std::string_view kFc = "model.fc.weight";
inline constexpr std::string_view kHiddenNorm = "model.layers.0.hidden_norm";  // eagle3
inline constexpr std::string_view kEmbeddingNorm = "model.enorm";              // mtp
inline constexpr std::string_view kTargetNorm = "model.hnorm";                 // mtp
inline constexpr std::string_view kFinalNorm = "model.norm";                   // all but eagle
inline constexpr std::string_view kEmbedding = "model.embed_tokens.weight";
inline constexpr std::string_view kLmHead = "lm_head.weight";
/// Row r of lm_head is the logit of token r + d2t[r].
inline constexpr std::string_view kDraftToTarget = "d2t";
}  // namespace head_tensors

/// The checkpoint of a head under these names, without the tensors of its target.
[[nodiscard]] std::unique_ptr<WeightSource> with_head_names(std::unique_ptr<WeightSource> source,
                                                            const DraftHeadConfig& head);

/// Every tensor of a head. The embedding and lm_head are optional: otherwise the target's are used.
[[nodiscard]] std::vector<ExpectedTensor> expected_tensors(const DraftHeadConfig& head);

/// Checks that `source`, a result of with_head_names(), has all tensors of the head. Returns
/// warnings about tensors that are not used. \throws FileError as verify_weights
[[nodiscard]] std::vector<std::string> verify_weights(const DraftHeadConfig& head,
                                                      const WeightSource& source);

/// The target's token for each row of the head's lm_head. Empty: row r is token r.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE, E_VALUE
[[nodiscard]] std::vector<int32_t> read_target_ids(const DraftHeadConfig& head,
                                                   const WeightSource& source);

}  // namespace reprise::weights
