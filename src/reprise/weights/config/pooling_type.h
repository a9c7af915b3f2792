#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::weights {

/// What the vector of a text is made from, with vLLM's names: the hidden state of its last or first
/// token, or the mean of all.
enum class PoolingType : uint8_t { last, cls, mean };
[[nodiscard]] std::string_view pooling_type_name(PoolingType type) noexcept;  // "LAST"

/// The function after a projection of vectors.
enum class DenseActivation : uint8_t { identity, tanh, relu, gelu };

/// A projection of vectors, which a module "Dense" of Sentence Transformers stores.
struct DenseModule {
  std::string folder;  // in the model folder, with its weights
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool has_bias = true;
  DenseActivation activation = DenseActivation::tanh;

  bool operator==(const DenseModule&) const = default;
};

/// How a model makes one vector of each text.
struct PoolingConfig {
  PoolingType type = PoolingType::last;
  bool normalizes = true;          // the vectors have length 1
  std::vector<DenseModule> dense;  // one after the other
  /// The longest text in tokens, if the folder's limit is below the model's; 0: the folder has no
  /// limit.
  int64_t max_text_length = 0;

  bool operator==(const PoolingConfig&) const = default;
};

/// The lengths of vectors that may be cut (Matryoshka embeddings): the first numbers of such a
/// vector are a usable vector too.
struct MatryoshkaConfig {
  std::vector<int64_t> lengths;  // lengths for which the model was trained; empty: any length
  int64_t longest = 0;           // numbers in a whole vector

  bool operator==(const MatryoshkaConfig&) const = default;
};

/// The function that turns scores of labels into probabilities.
enum class ClassifierActivation : uint8_t { none, sigmoid, softmax };

/// A model that gives each text a score for every label instead of next tokens or a vector: class
/// names that end with ForSequenceClassification.
struct ClassifierConfig {
  int64_t num_labels = 2;
  std::vector<std::string> labels;  // their names; one for each
  ClassifierActivation activation = ClassifierActivation::softmax;
  /// Tokens that replace a classifier; empty: the model has its own classifier. The score is the
  /// logit of the second token ("yes") minus the logit of the first ("no"), which is the use of
  /// Qwen3-Reranker. Then there is one label.
  std::vector<std::string> from_tokens;
  std::array<int64_t, 2> from_token_ids = {0, 1};  // set when the tokenizer is known

  /// The activation of the layer between pooling and classifier, if the model has such a layer.
  DenseActivation pooler_activation = DenseActivation::tanh;
  bool pooler_bias = true;
  std::optional<PoolingType> pooling;  // not given: the default for the kind of model

  bool uses_chat_template = false;  // for pairs of texts: the user gave a template

  bool operator==(const ClassifierConfig&) const = default;

  /// The number of rows of the last matrix product.
  [[nodiscard]] int64_t num_rows() const noexcept { return from_tokens.empty() ? num_labels : 2; }
};

}  // namespace reprise::weights
