#include "reprise/weights/config/lm_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "reprise/weights/config/decoder_tensors.h"

namespace reprise::weights {
namespace {

// Enough rows to hide the cost of a call, and few enough for the memory of a small machine.
constexpr int64_t kRowsAtOnce = 1024;

std::vector<float> floats_of_rows(const WeightSource& source,
                                  std::string_view name,
                                  RowRange rows,
                                  int64_t num_columns) {
  std::vector<float> values(static_cast<size_t>(rows.count * num_columns));
  source.read_rows(name, rows, DType::f32, std::as_writable_bytes(std::span(values)));
  return values;
}

// Whether both matrices have the same numbers. A matrix that cannot be read by rows is quantised,
// so it is not a copy.
bool are_equal(const WeightSource& source, std::string_view a, std::string_view b) {
  const std::vector<int64_t>& shape = source.find(a)->shape;
  if (shape != source.find(b)->shape || shape.size() != 2) return false;
  if (!source.reads_rows(a) || !source.reads_rows(b)) return false;
  for (int64_t row = 0; row < shape[0]; row += kRowsAtOnce) {
    const RowRange rows{.first = row, .count = std::min(kRowsAtOnce, shape[0] - row)};
    if (floats_of_rows(source, a, rows, shape[1]) != floats_of_rows(source, b, rows, shape[1])) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool uses_embedding_as_head(const ModelConfig& config,
                            const WeightSource& source,
                            std::vector<std::string>& warnings) {
  const DecoderTensors names = decoder_tensors(config);
  const bool is_tied = config.tie_word_embeddings;
  if (names.lm_head.empty() || !config.reads_lm_head()) return is_tied;
  const std::string head = std::string(names.lm_head) + ".weight";
  const std::string embedding = std::string(names.embedding) + ".weight";
  if (!source.has(embedding)) return is_tied;  // which is an error of its own
  if (is_tied && source.has(head) && !are_equal(source, head, embedding)) {
    warnings.push_back(
        fmt::format("{}: {} differs from {}, so it is used, although tie_word_embeddings is true",
                    source.description(),
                    head,
                    embedding));
    return false;
  }
  if (!is_tied && !source.has(head)) {
    warnings.push_back(fmt::format(
        "{}: there is no {}, so {} is used in its place, although tie_word_embeddings is false",
        source.description(),
        head,
        embedding));
    return true;
  }
  return is_tied;
}

}  // namespace reprise::weights
