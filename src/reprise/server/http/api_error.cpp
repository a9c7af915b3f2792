#include "reprise/server/http/api_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace reprise::server {
namespace {

// A message quotes text that a client sent, so it is cut: an answer must not contain megabytes of
// it.
constexpr size_t kMaxMessageBytes = 2048;

std::string shorten(std::string_view message) {
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  return std::string(message.substr(0, kMaxMessageBytes)) + "...";
}

/// A message may quote text that a client sent, and what() ends at the first NUL byte.
std::string with_visible_nul(std::string message) {
  for (size_t at = message.find('\0'); at != std::string::npos; at = message.find('\0', at)) {
    message.replace(at, 1, "\\u{0}");
  }
  return message;
}

/// `text` with the client's name in front, if the made request's name is there.
std::string renamed(const std::string& text, const FieldName& name) {
  const std::string_view rest =
      std::string_view(text).substr(std::min(text.size(), name.in_made.size()));
  const bool is_whole_name =
      rest.empty() || std::string_view(" .[:").find(rest[0]) != std::string_view::npos;
  if (!text.starts_with(name.in_made) || !is_whole_name) return text;
  return fmt::format("{}{}", name.in_request, rest);
}

}  // namespace

ApiError::ApiError(int status, const std::string& message, std::optional<std::string> param)
    : Error(with_visible_nul(message)), status_(status), param_(std::move(param)) {}

ApiError in_words_of_client(const ApiError& error, std::span<const FieldName> names) {
  std::string message = error.what();
  std::optional<std::string> param = error.param();
  for (const FieldName& name : names) {
    std::string own = renamed(message, name);
    const bool is_of_message = own != message;
    if (is_of_message) message = std::move(own);
    std::string own_param = param ? renamed(*param, name) : "";
    const bool is_of_param = param && own_param != *param;
    if (is_of_param) param = std::move(own_param);
    if (is_of_message || is_of_param) break;
  }
  return {error.status(), message, std::move(param)};
}

std::string_view error_type(int status) {
  switch (status) {
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
      return "NotFoundError";
    case 405:
      return "MethodNotAllowedError";
    case 409:
      return "ConflictError";
    case 408:
      return "RequestTimeoutError";
    case 413:
      return "RequestEntityTooLargeError";
    case 415:
      return "UnsupportedMediaTypeError";
    case 429:
      return "RateLimitError";
    case 501:
      return "NotImplementedError";
    case 503:
      return "ServiceUnavailableError";
    case 505:
      return "HTTPVersionNotSupportedError";
    default:
      return status >= 500 ? "InternalServerError" : "BadRequestError";
  }
}

Json error_body(const ApiError& error) {
  return {{"error",
           {{"message", shorten(error.what())},
            {"type", error_type(error.status())},
            {"param", error.param() ? Json(*error.param()) : Json(nullptr)},
            {"code", error.status()}}}};
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response{.status = error.status(), .body = dump(error_body(error))};
  if (error.status() == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status() == 429) response.headers.emplace_back("Retry-After", "1");
  if (error.status() == 503) response.headers.emplace_back("Retry-After", "5");
  return response;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reprise::server
