#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::chat_template {

/// Limits on the cost of one template. A template comes from a model folder, so an attacker may
/// have written it. A template that reaches a limit ends with a TemplateError whose is_limit() is
/// true.
struct Limits {
  size_t max_source_bytes = size_t{1} << 20;   // the largest known real template has ~30 KB
  int max_parse_depth = 128;                   // nested parentheses, blocks, filters, ...
  uint64_t max_steps = 5'000'000;              // one per evaluated AST node, plus bulk work
  size_t max_output_bytes = size_t{16} << 20;  // also the longest string value
  size_t max_live_bytes = size_t{64} << 20;    // all values and buffers alive at one moment
  int max_call_depth = 100;                    // macros calling macros
  int max_eval_depth = 1000;                   // native recursion: < 1 KiB of stack per level
  int max_value_depth = 100;                   // list in list in dict ...
  int64_t max_range = 100'000;                 // the limit of jinja2's sandbox
};

}  // namespace reprise::chat_template
