#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reprise/api/engine_frontend.h"
#include "reprise/weights/config/pooling_type.h"

namespace reprise::api {

/// What users get for the numbers that a model gives for a text: its vector, cut to `dimensions`
/// numbers, or with a `classifier` (null: none) the scores of its labels. `is_activated`: a vector
/// gets the length 1, scores become probabilities.
[[nodiscard]] std::vector<float> pooled_values(std::vector<float> numbers,
                                               const weights::ClassifierConfig* classifier,
                                               std::optional<size_t> dimensions,
                                               bool is_activated);

/// How similar two vectors are, -1 to 1; 0 when one of them is 0.
[[nodiscard]] double cosine(std::span<const float> a, std::span<const float> b);

/// Two texts as a cross-encoder reads them.
struct EncodedTexts {
  std::vector<int32_t> token_ids;
  std::optional<int32_t> second_begin;  // the first token of the second text; nothing: not needed
};
/// \throws InvalidArgument when the user's template refuses the texts
[[nodiscard]] EncodedTexts encode_texts(const EngineFrontend& engine,
                                        std::string_view first,
                                        std::string_view second);

}  // namespace reprise::api
