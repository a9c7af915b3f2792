#include "reprise/weights/config/classifier_config.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/base/json.h"
#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxLabels = int64_t{1} << 16;
constexpr size_t kMaxTokenBytes = 1024;

// `id2label` has a name for each number. As in Transformers, the number of names is num_labels.
void read_labels(const ConfigReader& reader, ClassifierConfig& config) {
  const Json* names = reader.find("id2label");
  if (names != nullptr && (!names->is_object() || names->empty())) {
    reader.fail("id2label", "must be an object with a name for each label");
  }
  const int64_t by_default = names == nullptr ? 2 : static_cast<int64_t>(names->size());
  config.num_labels = reader.integer("num_labels", 1, kMaxLabels).value_or(by_default);
  if (config.num_labels > kMaxLabels) {
    reader.fail("id2label", fmt::format("has more than {} labels", kMaxLabels));
  }
  for (int64_t label = 0; label < config.num_labels; ++label) {
    const auto found =
        names == nullptr ? Json::const_iterator() : names->find(fmt::to_string(label));
    const bool is_named = names != nullptr && found != names->end() && found->is_string();
    config.labels.push_back(is_named ? found->get<std::string>() : fmt::format("LABEL_{}", label));
  }
}

// Reads the tokens whose probabilities are compared.
void read_tokens(const ConfigReader& reader, ClassifierConfig& config) {
  const Json* tokens = reader.find("classifier_from_token");
  if (tokens == nullptr) return;
  const auto is_token = [](const Json& token) {
    return token.is_string() && token.get_ref<const std::string&>().size() <= kMaxTokenBytes;
  };
  if (!tokens->is_array() || tokens->size() != 2 || !std::ranges::all_of(*tokens, is_token)) {
    reader.fail("classifier_from_token", "must be a list of two tokens, as [\"no\", \"yes\"]");
  }
  const std::string method = reader.string("method").value_or("from_2_way_softmax");
  if (method != "from_2_way_softmax" &&
      !reader.boolean("is_original_qwen3_reranker").value_or(false)) {
    reader.fail(
        "method",
        fmt::format("'{}' is not supported; supported: from_2_way_softmax", visible(method)));
  }
  config.num_labels = 1;
  config.labels = {"LABEL_0"};
  config.from_tokens = {tokens->at(0).get<std::string>(), tokens->at(1).get<std::string>()};
}

// The function that Sentence Transformers stores with a cross-encoder, as the name of a class.
std::optional<std::string> stored_function(const ConfigReader& reader) {
  if (const auto inner = reader.object("sentence_transformers")) {
    if (auto name = inner->string("activation_fn")) return name;
  }
  return reader.string("sbert_ce_default_activation_function");
}

// Source: vLLM 0.32, get_act_fn.
ClassifierActivation read_activation_of_labels(const ConfigReader& reader, int64_t num_labels) {
  const auto by_number =
      num_labels < 2 ? ClassifierActivation::sigmoid : ClassifierActivation::softmax;
  const std::string problem = reader.string("problem_type").value_or("");
  if (problem == "regression") return ClassifierActivation::none;
  if (problem == "single_label_classification") return by_number;
  if (problem == "multi_label_classification") return ClassifierActivation::sigmoid;
  const std::optional<std::string> function = stored_function(reader);
  if (!function) return by_number;
  if (function->ends_with(".Identity")) return ClassifierActivation::none;
  if (function->ends_with(".Sigmoid") || function->ends_with(".Softmax")) return by_number;
  reader.fail("sbert_ce_default_activation_function",
              fmt::format("'{}' is not supported; supported: Identity, Sigmoid and Softmax of "
                          "torch.nn.modules",
                          visible(*function)));
}

}  // namespace

ClassifierConfig read_classifier_config(const ConfigReader& reader) {
  ClassifierConfig config;
  read_labels(reader, config);
  read_tokens(reader, config);
  config.activation = read_activation_of_labels(reader, config.num_labels);
  return config;
}

}  // namespace reprise::weights
