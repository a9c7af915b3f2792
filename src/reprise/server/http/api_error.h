#pragma once

#include <optional>
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
