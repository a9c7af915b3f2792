#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"

namespace reprise::server {

inline constexpr int kMaxMembers = 1024;  // limit on the members of a body
// The limit keeps the answer's header, which lists these names, short.
inline constexpr size_t kMaxUnusedFields = 16;

/// Parses the JSON of a request body. \throws ApiError 400 with the position of the error
[[nodiscard]] Json parse_body(std::string_view body);

/// Reads the members of a request body by name and type, and records which members were read. null
/// counts as absent, because clients expect this. Values are read as vLLM's server reads them: 1.0
/// and "1" are integers, "0.7" is a number, "true" and 1 are booleans. All functions throw ApiError
/// 400 naming the field.
class RequestFields {
 public:
  /// `json` must outlive this object and all results of nested().
  explicit RequestFields(const Json& json);
  /// Reads an object inside this one, as a part of the same body. `path` is its place in unused()
  /// and must outlive this object: "stream_options", "messages[]".
  [[nodiscard]] RequestFields nested(std::string_view path, const Json& json) const;

  /// The paths of the members that no function of this object or of a nested one has read, each
  /// once: "user", "messages[].weight". Such members have no effect, so the server reports them to
  /// the client and in the log. At most kMaxUnusedFields, with "..." as the last one if there are
  /// more.
  [[nodiscard]] std::vector<std::string> unused() const;
  /// Checks the type of a member that has no effect on this server. The member stays unused unless
  /// its value is `served`, which asks for what the server does anyway.
  void check_boolean(std::string_view name, bool served) const;

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
  struct Notes;  // shared by all objects of a body
  RequestFields(std::string_view path, const Json& json, std::shared_ptr<Notes> notes);

  const Json* json_;
  std::shared_ptr<Notes> notes_;
};

/// Whether a value is false, an empty text, or an empty array or object.
[[nodiscard]] bool asks_for_nothing(const Json& value);

/// The number that a value of a request means; the text "0.7" also means a number. Nothing for
/// other values, and for infinities.
[[nodiscard]] std::optional<double> to_number(const Json& json);

/// The text of a member that must be present. `place`: of `fields` in the body, "messages[]".
/// \throws ApiError 400
[[nodiscard]] std::string required_text(const RequestFields& fields,
                                        std::string_view name,
                                        std::string_view place);

/// \throws ApiError 400 unless `json` is an array of integers in the range of token ids
[[nodiscard]] std::vector<int32_t> read_token_ids(const Json& json,
                                                  std::string_view field,
                                                  size_t max_count);

/// \throws ApiError 400 saying that `field` must be `expected`
[[noreturn]] void refuse_type(std::string_view field, std::string_view expected, const Json& found);
/// \throws ApiError 400 saying that `field` is part of the API but not supported by this server,
/// and `instead`, a sentence on what is
[[noreturn]] void refuse_unsupported(std::string_view field,
                                     std::string_view what = {},
                                     std::string_view instead = {});

}  // namespace reprise::server
