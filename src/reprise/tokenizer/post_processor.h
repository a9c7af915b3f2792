#pragma once

#include <cstdint>
#include <vector>

#include "reprise/tokenizer/component.h"

namespace reprise::tokenizer {

/// The "post_processor" of tokenizer.json for one sequence: the ids before and after the prompt.
struct PostProcessor {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;

  PostProcessor() = default;
  /// \throws FileError for a type or template that is not supported
  explicit PostProcessor(const Component& component);

 private:
  void add(const Component& component);
  void add_template(const Component& component);
};

}  // namespace reprise::tokenizer
