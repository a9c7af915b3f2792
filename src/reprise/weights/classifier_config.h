#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::weights {

class ConfigReader;

/// What turns the scores of labels into probabilities.
enum class ClassifierActivation : uint8_t { none, sigmoid, softmax };

/// A model that gives each text a score for every label instead of next tokens or a vector: class
/// names that end with ForSequenceClassification.
struct ClassifierConfig {
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // their names; one for each
  ClassifierActivation activation = ClassifierActivation::softmax;
  /// Not empty: the model has no classifier of its own. The score is the logit of the second token
  /// ("yes") minus the logit of the first ("no"), as Qwen3-Reranker is used. Then there is one
  /// label.
  std::vector<std::string> from_tokens;
  std::array<int64_t, 2> from_token_ids = {0, 1};  // set when the tokenizer is known

  bool uses_chat_template = false;  // for pairs of texts: the user gave a template

  bool operator==(const ClassifierConfig&) const = default;

  /// The rows of the last matrix product.
  [[nodiscard]] int64_t num_rows() const noexcept { return from_tokens.empty() ? num_labels : 2; }
};

/// The class whose layers the classifier has: "Qwen3" for "Qwen3ForSequenceClassification"; empty
/// for names of other classes.
[[nodiscard]] std::string_view classifier_stem(std::string_view class_name) noexcept;

/// \throws FileError E_CONFIG
[[nodiscard]] ClassifierConfig read_classifier_config(const ConfigReader& reader);

}  // namespace reprise::weights
