#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// An error that becomes the answer to a request. `param` names the field at fault.
class ApiError : public Error {
 public:
  ApiError(int status, const std::string& message, std::optional<std::string> param = {});

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] const std::optional<std::string>& param() const noexcept { return param_; }

 private:
  int status_;
  std::optional<std::string> param_;
};

/// A field of a request that the server has made out of the client's, and the client's field.
struct FieldName {
  std::string_view in_made;
  std::string_view in_request;
};

/// An error about a field of a made request as an error about the client's field: in param(), and
/// where the message begins with the name.
[[nodiscard]] ApiError in_words_of_client(const ApiError& error, std::span<const FieldName> names);

/// vLLM's name for the kind of error of a status: 400 is "BadRequestError".
[[nodiscard]] std::string_view error_type(int status);

/// {"error": {"message", "type", "param", "code"}}; "code" is the status as a number, the same as
/// in vLLM.
[[nodiscard]] Json error_body(const ApiError& error);

/// The same body as a response, with the headers that the status needs: WWW-Authenticate for 401,
/// Retry-After for 429 and 503.
[[nodiscard]] HttpResponse error_response(const ApiError& error);

/// Writes JSON as text. Bytes that are not UTF-8 are replaced and cause no exception.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace reprise::server
