#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json_budget.h"

namespace reprise::server {

inline constexpr int kMaxMembers = 1024;  // limit on the members of a body

/// Parses the JSON of a request body. \throws ApiError 400 with the position of the error
[[nodiscard]] Json parse_body(std::string_view body);

/// What the JSON in the texts of one request may hold together.
[[nodiscard]] JsonBudget budget_of_nested_texts();
/// Parses JSON that a text of a request body holds. \throws InvalidArgument
[[nodiscard]] Json parse_nested(const std::string& text,
                                std::string_view where,
                                JsonBudget& budget);

/// Reads the members of a request body by name and type. null counts as absent, because clients
/// expect this. Integers need integer syntax; no value is converted. All functions throw ApiError
/// 400 naming the field.
class RequestFields {
 public:
  /// `json` must outlive this.
  explicit RequestFields(const Json& json);

  /// Returns null when the member is absent or null.
  [[nodiscard]] const Json* find(std::string_view name) const;
  [[nodiscard]] std::optional<bool> boolean(std::string_view name) const;
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name) const;
  [[nodiscard]] std::optional<int> int32(std::string_view name) const;
  [[nodiscard]] std::optional<float> number(std::string_view name) const;
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  /// A string or an array of strings.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;
  [[nodiscard]] std::vector<int32_t> token_ids(std::string_view name, size_t max_count) const;

 private:
  const Json* json_;
};

/// \throws ApiError 400 unless `json` is an array of integers in the range of token ids
[[nodiscard]] std::vector<int32_t> read_token_ids(const Json& json,
                                                  std::string_view field,
                                                  size_t max_count);

/// \throws ApiError 400 saying that `field` must be `expected`
[[noreturn]] void refuse_type(std::string_view field, std::string_view expected, const Json& found);
/// \throws ApiError 400 saying that `field` is part of the API but not supported by this server
[[noreturn]] void refuse_unsupported(std::string_view field, std::string_view what = {});

}  // namespace reprise::server
