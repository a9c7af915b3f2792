#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/server/http/http_exchange.h"

namespace reprise::server {

/// A request that is answered with an error. `param` names the field at fault.
class ApiError : public Error {
 public:
  ApiError(int status, const std::string& message, std::optional<std::string> param = {})
      : Error(message), status_(status), param_(std::move(param)) {}

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] const std::optional<std::string>& param() const noexcept { return param_; }

 private:
  int status_;
  std::optional<std::string> param_;
};

/// vLLM's name of the kind of error behind a status: 400 is "BadRequestError".
[[nodiscard]] std::string_view error_type(int status);

/// {"error": {"message", "type", "param", "code"}} with the status as a number, as vLLM answers.
[[nodiscard]] Json error_body(const ApiError& error);

/// The same as a response, with the headers that belong to the status: 401 WWW-Authenticate, 429
/// and 503 Retry-After.
[[nodiscard]] HttpResponse error_response(const ApiError& error);

/// Text of JSON; bytes that are not UTF-8 are replaced rather than thrown at.
[[nodiscard]] std::string dump(const Json& json);

}  // namespace reprise::server
