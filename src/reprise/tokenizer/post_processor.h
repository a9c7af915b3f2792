#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/tokenizer/component.h"

namespace reprise::tokenizer {

/// The ids around and between two texts, for models that compare them.
struct PairTemplate {
  std::vector<int32_t> prefix;
  std::vector<int32_t> middle;
  std::vector<int32_t> suffix;
  /// The first id of `middle` that counts as part of the second text; its size: none does. Without
  /// a value, the two texts are not told apart.
  std::optional<size_t> second_begin;
};

/// The "post_processor" of tokenizer.json: the ids before and after the prompt.
struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  /// Nothing: the template of the file is not one of the kind above. Without a template, two texts
  /// follow each other.
  std::optional<PairTemplate> pair = PairTemplate{};

  PostProcessor() = default;
  /// \throws FileError for a type or template that is not supported
  explicit PostProcessor(const Component& component);

 private:
  void add(const Component& component);
  void add_template(const Component& component);
  void add_roberta(const Component& component);
};

}  // namespace reprise::tokenizer
