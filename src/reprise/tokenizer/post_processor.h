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
  /// The index of the first id of `middle` that counts as part of the second text; the size of
  /// `middle`: none does. Unset: the two texts have the same type.
  std::optional<size_t> second_begin;
};

/// The "post_processor" of tokenizer.json: the ids before and after the prompt.
struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
  /// Nothing: the file has a template of another form. Without any template, two texts just follow
  /// each other.
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
