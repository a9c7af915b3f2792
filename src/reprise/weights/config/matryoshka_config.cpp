#include "reprise/weights/config/matryoshka_config.h"

#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {

std::optional<MatryoshkaConfig> read_matryoshka_config(const ConfigReader& reader,
                                                       int64_t hidden_size) {
  constexpr size_t kMaxLengths = 1024;
  MatryoshkaConfig config{
      .lengths = reader.integers("matryoshka_dimensions", 1, hidden_size, kMaxLengths),
      .longest = hidden_size};
  const bool is_named = reader.boolean("is_matryoshka").value_or(false);
  if (!is_named && config.lengths.empty()) return std::nullopt;
  return config;
}

}  // namespace reprise::weights
